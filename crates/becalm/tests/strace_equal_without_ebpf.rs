//! strace_equal.rs again, without eBPF, as an ordinary user records.

#[path = "strace_equal.rs"]
mod strace_equal;
