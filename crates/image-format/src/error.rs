//! What can go wrong while a tree is read, or written as squashfs.

use std::io;
use std::path::{Path, PathBuf};

/// Why a tree was not read, or no squashfs made of it.
#[derive(Debug, thiserror::Error)]
pub enum SquashWriteError {
    /// The system said no.
    #[error("{}: {operation}", path.display())]
    At {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file's size or time is not what it was when its directory was listed.
    #[error(
        "{}: it changed while it was packed; pack it again when nothing writes to it",
        .0.display()
    )]
    Changed(PathBuf),
    /// A file that an image cannot hold.
    #[error("{}: it is a socket, which no image can hold", .0.display())]
    Socket(PathBuf),
    /// A place or a number that will not do.
    #[error("{}: {why}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// A file of more blocks than squashfs has room for: larger blocks
    /// ([`SquashOptions::block_size`](crate::squash::SquashOptions::block_size)) are fewer.
    #[error("too much for one image: blocks in one file")]
    TooManyBlocks,
    /// A number that squashfs has no room for.
    #[error("too much for one image: {0}")]
    TooMuch(&'static str),
}

impl SquashWriteError {
    pub(crate) fn at<E: Into<io::Error>>(
        operation: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> SquashWriteError {
        move |source| SquashWriteError::At {
            operation,
            path: path.to_owned(),
            source: source.into(),
        }
    }
}
