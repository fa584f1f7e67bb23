//! Recordings: written, read, asked, and damaged.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod cut;
mod data;
mod diffs;
mod exports;
mod format_docs;
mod hostile;
mod readers;
mod round_trip;
mod strace;
mod tables;
