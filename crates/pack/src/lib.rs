#![doc = include_str!("../README.md")]
//!
//! | file | what it holds |
//! |---|---|
//! | `make` | the way from a program to its pack |
//! | `work` | two starts compared and understood |
//! | `finish` | the table and the files |
//! | `program` | the program's own file, and why it cannot be packed |
//! | `regions` | what a stopped program has mapped |
//! | `compare` | two starts compared: the words that differ, each explained |
//! | `calls` | what the loader called, and which files its answer depends on |
//! | `file_check` | what of a file must be as it was |
//! | `write` | the pack's file |
//! | `copy` | the program's copy, which names the pack as its interpreter |
//! | `about` | what a pack says of itself; one opened and checked |
//! | `error` | why there is none |
//! | `arch` | x86-64: the code that a pack begins with, its table, the processor's facts |

mod about;
#[cfg(target_arch = "x86_64")]
mod arch;
#[cfg(target_arch = "x86_64")]
mod calls;
#[cfg(target_arch = "x86_64")]
mod compare;
#[cfg(target_arch = "x86_64")]
mod copy;
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
mod error;
mod file_check;
#[cfg(target_arch = "x86_64")]
mod finish;
#[cfg(target_arch = "x86_64")]
mod make;
#[cfg(target_arch = "x86_64")]
mod program;
#[cfg(target_arch = "x86_64")]
mod regions;
#[cfg(target_arch = "x86_64")]
mod staging;
#[cfg(target_arch = "x86_64")]
mod work;
#[cfg(target_arch = "x86_64")]
mod write;

pub use about::{OpenedPack, PackAbout};
#[cfg(not(target_arch = "x86_64"))]
pub use elsewhere::{make, why_not};
pub use error::PackError;
pub use file_check::ContentIdentity;
#[cfg(target_arch = "x86_64")]
pub use make::{make, why_not};

use std::path::PathBuf;

/// How a pack is made.
#[derive(Clone, Debug, Default)]
pub struct PackOptions {
    /// Directories of which the user says that no file in them ever changes: what lies below is not
    /// looked at again when a pack starts.
    pub immutable: Vec<PathBuf>,
}

/// What was made.
#[derive(Clone, Debug)]
pub struct MadePack {
    /// The pack's file.
    pub file: PathBuf,
    /// Its length, in bytes; holes count.
    pub length: u64,
    /// What it says of itself.
    pub about: PackAbout,
}
