//! Recordings of many ranks, of `mpirun` and of Slurm.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod calibrate;
mod mpirun;
mod report;
mod slurm;
mod spread;
mod starts;
mod task_prolog;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
