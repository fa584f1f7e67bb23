//! What starting a program costs, and how to make it cheaper for a running process.

pub mod bench;
pub mod collapse;
