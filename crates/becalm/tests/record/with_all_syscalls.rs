//! With every call stopped at, no filter choosing.

use testkit::Backend;

const BACKEND: Backend = Backend::AllSyscalls;

#[path = "transparent.rs"]
mod transparent;

#[path = "traps.rs"]
mod traps;

#[path = "touches.rs"]
mod touches;
