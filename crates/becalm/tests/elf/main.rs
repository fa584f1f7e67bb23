//! `becalm elf`.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod bind;
mod bind_asked;
mod bind_calls;
mod bind_crafted;
mod bind_environment;
mod bind_left_out;
mod bind_loaders;
mod bind_manifest;
mod bind_meanwhile;
mod bind_modes;
mod bind_obstacles;
mod bind_opened;
mod bind_places;
mod bind_run;
mod bind_shared;
mod bind_unnamed;
mod bind_watch;
mod hook;
#[cfg(target_arch = "x86_64")]
mod pack;
#[cfg(target_arch = "x86_64")]
mod pack_glibcs;
#[cfg(target_arch = "x86_64")]
mod pack_kept;
#[cfg(target_arch = "x86_64")]
mod pack_never;
#[cfg(target_arch = "x86_64")]
mod pack_refusals;
#[cfg(target_arch = "x86_64")]
mod packed;
mod tree;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
