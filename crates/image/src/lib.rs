//! Images of a software environment: many small files packed into one.
//!
//! | module | what it holds |
//! |---|---|
//! | `tree` | what is to be packed: directories and files with their attributes, and their order |
//! | `squash` | squashfs 4.0: a writer in the order of a trace, and a reader that trusts no number |
//! | `sif` | the container in one file that Apptainer and SingularityCE run, written and read |
//! | `container` | squashfs, texts and overlay put together into a SIF |
//! | `ext3` | an empty ext3: the layer that a container writes to |
//! | `out` | an image while it is written: a file without its name |
//! | `extract` | an image's files, unpacked into a directory |
//! | `inspect` | what is in an image's file, whatever it is |
//! | `mount` | running in an image: mounted over its original path, once a node |
//! | `stage` | the same where nothing can be mounted: unpacked into memory of the node |
//! | `manifest` | what an image says of itself, and whether its sources are still the same |
//! | `outside` | what an image's content refers to, and does not hold |
//! | `error` | what can go wrong while an image is made |
//! | `source` | bytes at an offset: what readers read from |
//! | `text` | paths in JSON |

pub mod container;
mod error;
pub mod ext3;
pub mod extract;
mod inspect;
mod manifest;
pub mod mount;
mod out;
mod outside;
pub mod sif;
mod source;
pub mod squash;
pub mod stage;
mod text;
mod tree;

pub use error::Error;
pub use inspect::{
    ExtFacts, Holds, InspectError, Inspection, ObjectFacts, SifFacts, SquashFacts, deffile, inspect,
};
pub use manifest::Manifest;
pub use outside::{Outside, Reference};
pub use source::{Source, Window};
pub use tree::{Addition, Fingerprint, Layout, LeftOut, Reason, What, opened};
