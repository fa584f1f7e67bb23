//! transparent.rs again, without eBPF, as an ordinary user records.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

#[path = "transparent.rs"]
mod transparent;
