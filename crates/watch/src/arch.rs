//! What differs by processor: the audit architectures of its system call tables, and the
//! registers of a call.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("becalm's recorder knows x86-64 only; another machine needs its own arch.rs");

use recording::Abi;

/// `AUDIT_ARCH_X86_64` (linux/audit.h).
pub(crate) const NATIVE: u32 = 0xc000_003e;
/// `AUDIT_ARCH_I386`.
pub(crate) const COMPAT: u32 = 0x4000_0003;
/// The bit that marks a number of the x32 table (`__X32_SYSCALL_BIT`).
pub(crate) const X32_BIT: u32 = 0x4000_0000;

/// Which table a call's number is of, and the number in it.
pub(crate) fn table(arch: u32, number: u64) -> (Abi, u64) {
    match arch {
        COMPAT => (Abi::I386, number),
        _ if number & u64::from(X32_BIT) != 0 => (Abi::X32, number & !u64::from(X32_BIT)),
        _ => (Abi::Native, number),
    }
}

/// The size of a pointer of a program of this architecture.
pub(crate) fn word(arch: u32) -> usize {
    if arch == COMPAT { 4 } else { 8 }
}

/// Whether a thread at a signal's stop has just left a system call with EINTR.
pub(crate) fn left_call_with_eintr(registers: &libc::user_regs_struct) -> bool {
    registers.orig_rax as i64 >= 0 && registers.rax as i64 == -i64::from(libc::EINTR)
}

/// The kernel's 'restart, unless a handler runs' (linux/errno.h).
const ERESTARTNOHAND: i64 = 514;

/// Makes the call look interrupted in the way that the kernel itself restarts, if no handler
/// runs after all.
pub(crate) fn let_kernel_restart(registers: &mut libc::user_regs_struct) {
    registers.rax = (-ERESTARTNOHAND) as u64;
}

/// Makes the call that a thread is about to enter fail, without being made.
pub(crate) fn refuse_call(registers: &mut libc::user_regs_struct, error: i32) {
    registers.orig_rax = u64::MAX;
    registers.rax = (-i64::from(error)) as u64;
}

/// Sets a call's first argument, before it is entered or after it.
pub(crate) fn set_first_argument(
    registers: &mut libc::user_regs_struct,
    abi: Abi,
    value: u64,
) {
    match abi {
        Abi::I386 => registers.rbx = value,
        Abi::Native | Abi::X32 => registers.rdi = value,
    }
}

/// Sets the fourth argument of a native call that is about to be restarted.
pub(crate) fn set_fourth_argument(registers: &mut libc::user_regs_struct, value: u64) {
    registers.r10 = value;
}
