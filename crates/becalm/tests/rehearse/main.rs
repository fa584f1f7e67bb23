//! A slow filesystem and many ranks: `becalm rehearse`, `becalm scale`.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod calibrate;
mod ends;
mod one_cost;
mod programs;
mod proof;
mod rehearse;
mod scale;
mod scale_truth;
mod ways_agree;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
