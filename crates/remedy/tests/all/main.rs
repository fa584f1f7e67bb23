//! Changes of files, applied, broken off and undone.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod apply;
mod asked;
mod descriptors;
mod exchanged;
mod faults;
mod journal;
mod kept;
mod kill;
mod moments;
mod obstacle;
mod read_before;
mod scene;
mod undo;
