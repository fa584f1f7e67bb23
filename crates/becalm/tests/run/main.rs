//! `becalm run`.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod aslr;
mod calm;
mod calm_scripts;
mod container;
mod container_apptainer;
mod hugepages;
mod image;
mod image_another;
mod image_asks;
mod image_calm;
mod image_foreign;
mod image_fresh;
mod image_healed;
mod image_holder;
mod image_mpi;
mod image_overlay;
mod image_python;
mod image_reads;
mod image_replaced;
mod image_root;
mod image_several;
mod image_touched;
mod read_ahead;
mod stage;
mod stage_ranks;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
