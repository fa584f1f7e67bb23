//! `becalm image`.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod build;
mod extract;
mod heal;
mod heal_asked_before;
mod heal_libraries;
mod heal_search_path;
mod inspect;
mod overlay;
mod requests;
mod spread;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
