//! x86-64.

use std::arch::asm;

/// The part of the kernel's `struct pt_regs` (asm/ptrace.h) from `r10` to `ip`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct X86PtRegs {
    r10: u64,
    r9: u64,
    r8: u64,
    ax: u64,
    cx: u64,
    dx: u64,
    si: u64,
    di: u64,
    number: u64,
    ip: u64,
}

impl X86PtRegs {
    /// Where `r10` is in `struct pt_regs`, after r15, r14, r13, r12, bp, bx and r11; and how many bytes.
    pub(crate) const PARTS: &[(i32, i32)] = &[(7 * 8, 10 * 8)];

    pub(crate) fn number(&self) -> u16 {
        self.number as u16
    }

    pub(crate) fn args(&self) -> [u64; 6] {
        [self.di, self.si, self.dx, self.r10, self.r8, self.r9]
    }

    /// Where an argument is in this structure.
    pub(crate) fn argument_at(argument: u8) -> u8 {
        [7, 6, 5, 0, 2, 1][usize::from(argument.min(5))] * 8
    }

    /// The instruction after the call's.
    pub(crate) fn ip(&self) -> u64 {
        self.ip
    }
}

/// Where `thread_info.status` is in `task_struct`: since Linux 5.11, and before.
pub(crate) const COMPAT_AT: &[i32] = &[16, 8];

/// `TS_COMPAT` (asm/thread_info.h): the thread is in a call of the 32-bit table. A 64-bit process
/// can make one as well (`int $0x80`), and only this status tells.
pub(crate) const COMPAT: i32 = 2;

/// `writev` in the native table; the 32-bit one has `getpid` there.
pub(crate) const WRITEV: u16 = 20;

/// Makes the call of this number of the 32-bit table, without arguments; a memory fault where the
/// kernel was built without that table.
///
/// # Safety
/// As the call.
pub(crate) unsafe fn call_of_other_table(number: u16) {
    // SAFETY: the caller's; older kernels clear r8 to r11 on their way out.
    unsafe {
        asm!(
            "int 0x80",
            inlateout("eax") i32::from(number) => _,
            lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
        );
    }
}
