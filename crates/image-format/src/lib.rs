#![doc = include_str!("../README.md")]
//!
//! | module | what it holds |
//! |---|---|
//! | `tree` | directories and files with their attributes, and the order of their content |
//! | `squash` | squashfs 4.0: a writer in any order wanted, and a reader that trusts no number |
//! | `sif` | the container in one file that Apptainer and SingularityCE run, written and read |
//! | `ext3` | an empty ext3: the layer that a container writes to |
//! | `writer` | a file that is written, from a byte on |
//! | `source` | bytes at an offset: what readers read from |
//! | `error` | what can go wrong while a tree is read and written |

mod error;
pub mod ext3;
#[doc(hidden)] // What becalm's own JSON says of paths.
pub mod path_json;
pub mod sif;
mod source;
pub mod squash;
pub mod tree;
mod writer;

pub use error::SquashWriteError;
pub use source::{ReadAt, ReadWindow};
pub use writer::ImageWriter;
