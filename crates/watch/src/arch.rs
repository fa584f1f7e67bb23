//! What differs by processor: the audit architectures of its system call tables, and the
//! registers of a call.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("becalm's recorder knows x86-64 only; another machine needs its own arch.rs");

use recording::{Abi, Nanos};

use crate::memory;

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
        _ => (Abi::X86_64, number),
    }
}

/// The size of a pointer of a program of this architecture.
pub(crate) fn word(arch: u32) -> usize {
    if arch == COMPAT { 4 } else { 8 }
}

/// The code segment of 32-bit programs (`__USER32_CS`).
const CODE_32: u64 = 0x23;

/// Whether the thread's call is of the 32-bit table: it is a 32-bit program, or the instruction
/// was `int 0x80`.
fn is_compat(tid: i32, registers: &libc::user_regs_struct) -> bool {
    let mut instruction = [0; 2];
    registers.cs == CODE_32
        || memory::read(tid, registers.rip.wrapping_sub(2), &mut instruction)
            .is_ok_and(|got| got == 2 && instruction == [0xcd, 0x80])
}

/// A call at its entry, from the registers: architecture, instruction, number, arguments.
pub(crate) fn entry(tid: i32, registers: &libc::user_regs_struct) -> (u32, u64, u64, [u64; 6]) {
    let r = registers;
    if is_compat(tid, r) {
        let args = [r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp].map(|arg| arg & 0xffff_ffff);
        return (COMPAT, r.rip, r.orig_rax & 0xffff_ffff, args);
    }
    (NATIVE, r.rip, r.orig_rax, [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9])
}

/// A call's result at its exit, from the registers: the value, and whether it is an error.
pub(crate) fn exit(tid: i32, registers: &libc::user_regs_struct) -> (i64, bool) {
    let value = match is_compat(tid, registers) {
        true => i64::from(registers.rax as i32),
        false => registers.rax as i64,
    };
    (value, (-4095..0).contains(&value))
}

/// The architecture and the stack of a program that has just been executed.
pub(crate) fn new_program(registers: &libc::user_regs_struct) -> (u32, u64) {
    (if registers.cs == CODE_32 { COMPAT } else { NATIVE }, registers.rsp)
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
pub(crate) fn set_first_argument(registers: &mut libc::user_regs_struct, abi: Abi, value: u64) {
    match abi {
        Abi::I386 => registers.rbx = value,
        Abi::X86_64 | Abi::X32 | Abi::Aarch64 => registers.rdi = value,
    }
}

/// The timeout of the call that a thread has just left, and what it returns when that is over,
/// for the calls that return EINTR and do not restart by themselves (signal(7)).
pub(crate) fn timeout(tid: i32, registers: &libc::user_regs_struct) -> Option<(Nanos, i64)> {
    let r = registers;
    let (at, result) = match r.orig_rax as i64 {
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
            let millis = u64::try_from(r.r10 as i32).ok()?;
            return Some((Nanos(millis * 1_000_000), 0));
        }
        libc::SYS_semtimedop => (r.r10, -i64::from(libc::EAGAIN)),
        libc::SYS_rt_sigtimedwait => (r.rdx, -i64::from(libc::EAGAIN)),
        libc::SYS_epoll_pwait2 => (r.r10, 0),
        libc::SYS_io_getevents => (r.r8, 0),
        _ => return None,
    };
    // struct timespec; a null one waits for ever.
    let seconds = memory::read_u64(tid, at).ok()?;
    let nanos = memory::read_u64(tid, at.wrapping_add(8)).ok()?;
    Some((Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos)), result))
}

/// Whether upper halves of vector registers (YMM) of a stopped thread are in use; none where the
/// processor has none, or the kernel does not tell.
///
/// The regset is XSAVE's standard form: 512 bytes of the legacy area, of which the kernel uses
/// bytes 464 to 471 for XCR0 (struct user_xstateregs, arch/x86/include/asm/user.h), then the
/// header, which begins with XSTATE_BV (Intel SDM, volume 1, 13.4).
pub(crate) fn upper_in_use(tid: i32) -> Option<bool> {
    const ENABLED: usize = 464;
    const IN_USE: usize = 512;
    const UPPER: u64 = 1 << 2;
    let mut state = [0; IN_USE + 8];
    let got = crate::ptrace::extended_state(tid, &mut state).ok()?;
    let has_upper = |at: usize| {
        let bits = state.get(at..at + 8)?.first_chunk()?;
        Some(u64::from_le_bytes(*bits) & UPPER != 0)
    };
    if got < state.len() || !has_upper(ENABLED)? {
        return None;
    }
    has_upper(IN_USE)
}
