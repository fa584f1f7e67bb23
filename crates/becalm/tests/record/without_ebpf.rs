//! Without eBPF, as an ordinary user records.

use testkit::Backend;

const BACKEND: Backend = Backend::WithoutEbpf;

#[path = "memory.rs"]
mod memory;

#[path = "strace_equal.rs"]
mod strace_equal;

#[path = "transparent.rs"]
mod transparent;

#[path = "traps.rs"]
mod traps;

#[path = "touches.rs"]
mod touches;
