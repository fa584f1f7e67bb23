//! Scripts that start many programs: `becalm fork lines`, `becalm run --builtins`.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod builtins;
mod by_path;
mod counts;
mod damaged;
mod foreign;
mod kept;
mod limits;
mod line_times;
mod lines;
mod perl;
mod sh;
mod subshells;
mod substitutions;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
