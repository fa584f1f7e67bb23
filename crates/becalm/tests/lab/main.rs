//! The laboratory: layouts, profiles, forks.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod aslr_analyze;
mod aslr_campaign;
mod aslr_campaign_slurm;
#[cfg(target_arch = "x86_64")] // The regions of a layout are moved there only.
mod aslr_explain;
mod aslr_rank;
mod aslr_scan;
mod aslr_verify;
mod aslr_wrapper;
mod fork_collapse;
mod old_names;
mod profile;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
