//! Why there is no hot part.

use std::io;
use std::path::PathBuf;

use crate::mount::MountError;

/// Why a hot part cannot be made, or not received.
#[derive(Debug, thiserror::Error)]
pub enum HotPartError {
    /// A file, and what was tried with it.
    #[error("{}: cannot {what}: {error}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// The image cannot be opened, or is none.
    #[error(transparent)]
    Image(#[from] MountError),
    /// What an overlay has in it is no image.
    #[error(
        "{}: is an ext3 filesystem, no squashfs and no SIF: spread the image that it lies over",
        .0.display()
    )]
    Ext3(PathBuf),
    /// Nothing says what a start reads of it.
    #[error(
        "{}: does not say what a start reads of it: build it with a command after `--` \
         (becalm image build), or spread all of it (--all)", .0.display()
    )]
    NoTrace(PathBuf),
    /// The image's file is another one by now.
    #[error("{}: has changed while it was read: spread it again", .0.display())]
    Changed(PathBuf),
    /// Not as much room.
    #[error("no room for {needed} bytes: {why}; give memory back, or spread less of it (--most)")]
    NoRoom {
        /// Bytes that are needed.
        needed: u64,
        /// What there is where.
        why: String,
    },
    /// What was to be a hot part is none, or is damaged.
    #[error("{}: is no whole hot part ({why}): spread it again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// For `map_err`: an error of this file, at this work.
pub(super) fn file(
    path: impl Into<PathBuf>,
    what: &'static str,
) -> impl FnOnce(io::Error) -> HotPartError {
    let path = path.into();
    move |error| HotPartError::File { path, what, error }
}
