//! `becalm prove`.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod image;
mod prove;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
