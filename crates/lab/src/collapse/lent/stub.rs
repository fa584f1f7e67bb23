//! What a lent thread runs: one system call, and then the way back to where it was, all by itself.
//!
//! The registers that it goes back to are in the code, as constants. It reads and writes no memory
//! but its own instructions, leaves the stack pointer alone and calls nothing: so a signal may come
//! at any moment, and nobody else is needed for the thread to end where it would have been.

/// The registers of a stopped thread, as PTRACE_GETREGS has them.
pub(super) type LentRegisters = libc::user_regs_struct;

/// Room for the code, which is some bytes shorter.
pub(super) const SIZE: usize = 192;

/// Carry, parity, adjust, zero and sign: what SAHF sets; bit 1 is always set.
const BY_SAHF: u64 = 0xd7;
const DIRECTION: u64 = 1 << 10;
const OVERFLOW: u64 = 1 << 11;
/// Interrupts are always on; the resume flag is of debuggers, and of page faults.
const OF_NO_MATTER: u64 = 1 << 9 | 1 << 16;

/// Errors by which the kernel says that a call is to be made again (include/linux/errno.h), seen
/// only by who stops a thread in it.
const RESTART: [i64; 3] = [-512, -513, -514];
const RESTART_BLOCK: i64 = -516;

/// Whether a thread's flags are of those that the code can set.
pub(super) fn can_set(flags: u64) -> bool {
    flags & !(BY_SAHF | DIRECTION | OVERFLOW | OF_NO_MATTER) == 0
}

/// Where a stopped thread would go on: a call that was interrupted, at its instruction again, as
/// the kernel has it (arch_do_signal_or_restart of arch/x86/kernel/signal.c).
pub(super) fn going_on(stopped: &LentRegisters) -> LentRegisters {
    let mut home = *stopped;
    let result = stopped.rax as i64;
    let is_call = stopped.orig_rax as i64 >= 0;
    if is_call && (RESTART.contains(&result) || result == RESTART_BLOCK) {
        home.rip -= 2;
        home.rax = match result {
            RESTART_BLOCK => libc::SYS_restart_syscall as u64,
            _ => stopped.orig_rax,
        };
    }
    home.orig_rax = u64::MAX;
    home
}

/// The code, which ends in `home`.
pub(super) fn code(home: &LentRegisters) -> [u8; SIZE] {
    let overflow = u8::from(home.eflags & OVERFLOW != 0);
    let direction = if home.eflags & DIRECTION != 0 { 0xfd } else { 0xfc };
    let mut code = vec![0x0f, 0x05]; // syscall
    code.extend([0xb0, 0x7f * overflow, 0x04, overflow]); // mov al, 127 or 0; add al, 1 or 0
    code.extend([0xb4, (home.eflags & BY_SAHF) as u8, 0x9e]); // mov ah, flags; sahf
    code.push(direction); // std or cld
    // mov register, constant: REX prefix, opcode with the register's number.
    let registers = [
        (0x48, 0xb8, home.rax),
        (0x48, 0xb9, home.rcx),
        (0x48, 0xba, home.rdx),
        (0x48, 0xbb, home.rbx),
        (0x48, 0xbd, home.rbp),
        (0x48, 0xbe, home.rsi),
        (0x48, 0xbf, home.rdi),
        (0x49, 0xb8, home.r8),
        (0x49, 0xb9, home.r9),
        (0x49, 0xba, home.r10),
        (0x49, 0xbb, home.r11),
        (0x49, 0xbc, home.r12),
        (0x49, 0xbd, home.r13),
        (0x49, 0xbe, home.r14),
        (0x49, 0xbf, home.r15),
    ];
    for (rex, opcode, value) in registers {
        code.extend([rex, opcode]);
        code.extend(value.to_le_bytes());
    }
    code.extend([0xff, 0x25, 0, 0, 0, 0]); // jmp [rip + 0]
    code.extend(home.rip.to_le_bytes());
    let mut all = [0; SIZE];
    all[..code.len()].copy_from_slice(&code);
    all
}

/// The registers with which a thread makes a call of three arguments there, and goes home.
pub(super) fn calling(
    home: &LentRegisters,
    at: u64,
    number: i64,
    arguments: [u64; 3],
) -> LentRegisters {
    let [rdi, rsi, rdx] = arguments;
    LentRegisters { rip: at, rax: number as u64, orig_rax: u64::MAX, rdi, rsi, rdx, ..*home }
}

/// Whether the processor has LAHF and SAHF in 64-bit mode (CPUID 0x80000001, ECX bit 0).
pub(super) fn has_sahf() -> bool {
    use std::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax > 0x8000_0000 && __cpuid(0x8000_0001).ecx & 1 != 0
}
