//! 64-bit x86.

pub(crate) const ABI_LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

pub(crate) const MISSING: &[&str] = &[];

/// `struct user_regs_struct` (sys/user.h).
pub(crate) type Registers = [u64; 27];

/// `orig_rax`.
pub(crate) fn call_in(registers: &Registers) -> u64 {
    registers[15]
}
