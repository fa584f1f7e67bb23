//! From a storm to its cure: `becalm check`, `fix`, `undo`.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod advice;
mod advice_data;
mod advice_images;
mod calm_place;
mod check;
mod fix;
mod image;
mod image_looks;
mod place;
mod room;
mod stories;
mod undo;
mod undo_foreign;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
