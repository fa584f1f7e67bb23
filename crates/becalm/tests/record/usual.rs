//! The way that becalm chooses.

use testkit::Backend;

const BACKEND: Backend = Backend::Usual;

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
