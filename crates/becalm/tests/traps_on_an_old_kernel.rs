//! traps.rs again, as on a kernel before 5.3, whose calls are read from registers.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

#[path = "traps.rs"]
mod traps;
