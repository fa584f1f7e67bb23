//! `becalm python`.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod one_rule;
mod scan;
mod scan_scene;
mod scan_troubles;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
