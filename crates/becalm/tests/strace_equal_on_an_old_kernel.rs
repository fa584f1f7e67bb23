//! strace_equal.rs again, as on a kernel before 5.3, whose calls are read from registers.

#[path = "strace_equal.rs"]
mod strace_equal;
