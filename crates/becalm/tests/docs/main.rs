//! The documentation: its commands, what it shows, its links.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod book;
mod commands;
mod page;
mod schemas;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
