#![doc = include_str!("../README.md")]
//!
//! | module | what it holds |
//! |---|---|
//! | `squash` | an image of some paths: squashfs, and what it says of itself |
//! | `as_traced` | whether a command is the one that an image was traced with |
//! | `opened` | which files a recorded command opened: they come first |
//! | `container` | squashfs, texts and overlay put together into a SIF |
//! | `out` | an image while it is written: a file without its name |
//! | `heal` | what is healed while it is packed: bytecode |
//! | `readable` | who can read what goes into an image |
//! | `removed` | a tree of directories removed, whatever their modes are |
//! | `extract` | an image's files, unpacked into a directory |
//! | `inspect` | what is in an image's file, whatever it is |
//! | `mount` | running in an image: mounted over its original path, once a node |
//! | `stage` | the same where nothing can be mounted: unpacked into memory of the node |
//! | `hot` | what a start reads of an image, brought to every node as a file of its own |
//! | `manifest` | what an image says of itself, and whether its sources are still the same |
//! | `outside` | what an image's content refers to, and does not hold |
//! | `written` | what is looked for in an image that was just written |
//! | `error` | what can go wrong while an image is made |
//!
//! The bytes themselves, squashfs, SIF and ext3, are in the crate `image-format`.

mod as_traced;
pub mod container;
mod error;
pub mod extract;
mod heal;
pub mod hot;
mod inspect;
mod manifest;
pub mod mount;
mod opened;
mod out;
mod outside;
mod readable;
mod removed;
pub mod squash;
pub mod stage;
mod written;

pub use error::ImageError;
pub use inspect::{
    ExtFacts, Holds, InspectError, Inspection, ObjectFacts, SifFacts, SquashFacts, deffile, inspect,
};
pub use manifest::Manifest;
pub use opened::TracedFiles;
pub use outside::{OutsideReference, Reference};
