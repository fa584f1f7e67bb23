//! 64-bit Arm. Written from the kernel's headers, and not yet run: each opening's self-test says
//! whether it is right.

/// The kernel's `struct pt_regs` (asm/ptrace.h) up to `pc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ArmPtRegs {
    x: [u64; 31],
    sp: u64,
    pc: u64,
}

impl ArmPtRegs {
    /// It begins the structure.
    pub(crate) const AT: i32 = 0;

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
