//! What is told of recordings: `becalm report`, `diff`, `export`.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod bad_recording;
mod bounded;
mod browse;
mod diff;
mod export;
mod last;
mod limits;
mod picture;
mod report;
mod sample;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
