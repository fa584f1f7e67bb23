//! traps.rs again, with every call stopped at, no filter choosing.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

#[path = "traps.rs"]
mod traps;
