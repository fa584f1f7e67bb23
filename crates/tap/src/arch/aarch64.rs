//! 64-bit Arm.

/// Of the kernel's `struct pt_regs` (asm/ptrace.h: x0 to x30, sp, pc, pstate) x0 to x8, and `pc`. What is copied
/// for each call is as large as on other processors.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ArmPtRegs {
    x: [u64; 9],
    pc: u64,
}

impl ArmPtRegs {
    /// Where these are there, and how many bytes.
    pub(crate) const PARTS: &[(i32, i32)] = &[(0, 9 * 8), (32 * 8, 8)];

    pub(crate) fn number(&self) -> u16 {
        self.x[8] as u16
    }

    pub(crate) fn args(&self) -> [u64; 6] {
        let [a, b, c, d, e, f, ..] = self.x;
        [a, b, c, d, e, f]
    }

    /// Where an argument is in this structure.
    pub(crate) fn argument_at(argument: u8) -> u8 {
        argument.min(5) * 8
    }

    /// The instruction after the call's.
    pub(crate) fn ip(&self) -> u64 {
        self.pc
    }
}

/// `thread_info.flags`, with which `task_struct` begins.
pub(crate) const COMPAT_AT: &[i32] = &[0];

/// `TIF_32BIT` (asm/thread_info.h): the program is a 32-bit one, and so are its calls.
pub(crate) const COMPAT: i32 = 1 << 22;

/// `writev`.
pub(crate) const WRITEV: u16 = 66;

/// A 64-bit program reaches no other table.
///
/// # Safety
/// Always.
pub(crate) unsafe fn call_of_other_table(_number: u16) {}
