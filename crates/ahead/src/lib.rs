#![doc = include_str!("../README.md")]
//!
//! A start that maps its libraries and data waits for each page that it touches, one after the
//! other, and the kernel reads little ahead of touches that jump. What it will touch is known from a
//! recording of an earlier start; so it can be asked for in large pieces, by some threads at a time.
//!
//! | file | what it holds |
//! |---|---|
//! | `list` | which parts of which files, in which order |
//! | `read` | having them read, by few threads, up to a bound |
//! | `memory` | how much memory that may take |

mod list;
mod memory;
mod read;

pub use list::{FilePart, ReadAheadFile, ReadAheadList};
pub use memory::quarter_of_free_memory;
pub use read::{HadAhead, ReadAheadLimits, read};
