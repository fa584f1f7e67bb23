//! The command line: what it refuses, what the machine allows.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod bad_input;
mod completions;
mod doctor;
mod hooks;
mod man;
mod no_room;
mod odd_names;
mod python_api;
mod unfinished;
mod usage;
mod words;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
