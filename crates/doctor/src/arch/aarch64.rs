//! 64-bit Arm.

pub(crate) const ABI_LOADER: &str = "/lib/ld-linux-aarch64.so.1";

pub(crate) const MISSING: &[&str] = &[
    "becalm elf pack, and run --pack",
    "becalm lab fork collapse without root",
    "becalm lab aslr explain",
    "recording: calls of 32-bit programs that an ignored signal wakes go on (EINTR, as under strace)",
];

/// `struct user_pt_regs` (asm/ptrace.h): x0 to x30, sp, pc, pstate.
pub(crate) type Registers = [u64; 34];

/// `x8`.
pub(crate) fn call_in(registers: &Registers) -> u64 {
    registers[8]
}
