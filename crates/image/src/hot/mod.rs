//! The hot part of an image: what a start reads of it, as a file of its own that is brought to every
//! node of a job, so that not every node reads it from the shared filesystem.
//!
//! | file | what it holds |
//! |---|---|
//! | `ranges` | which bytes of an image's file a start reads |
//! | `identity` | which file, and which state of it, a hot part was taken from |
//! | `format` | the file: its header, a digest for each piece, and the bytes |
//! | `part` | a hot part that is read: each piece is held against its digest |
//! | `make` | a hot part made, or received from another node |
//! | `place` | where it lies on a node, what it is called, and what removes it |
//! | `error` | why one cannot be made |
//!
//! It is never believed more than the image: it is used only where it names the image's file as it is
//! now, and a piece that is not as its digest says is read from the image's own file, as is
//! all that is not in it.

mod error;
mod format;
mod identity;
mod make;
mod part;
mod place;
mod ranges;

pub use error::HotPartError;
pub use make::{UnnamedHotPart, make, receive};
pub(crate) use part::HotFile;
pub use part::HotPart;
pub(crate) use place::find;
pub use place::{HotPlace, brought, job, note_brought, remove_ended, remove_of_job};
