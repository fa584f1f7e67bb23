//! As on a kernel before 5.3, whose calls are read from registers.

use testkit::Backend;

const BACKEND: Backend = Backend::OldKernel;

#[path = "strace_equal.rs"]
mod strace_equal;

#[path = "traps.rs"]
mod traps;
