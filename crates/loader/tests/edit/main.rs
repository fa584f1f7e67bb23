//! Edits in place, of real files: made by the compilers and linkers that Debian has, run by the
//! real loaders, read by the tools that people read them with.

#![allow(clippy::unwrap_used)] // A test program.

mod distribution;
mod hostile;
mod linkers;
mod machines;
mod matrix;
mod project;
mod refusals;
mod stubs;
mod toolchain;
