//! What can go wrong while an image is made.

use std::io;
use std::path::{Path, PathBuf};

use crate::{ext3, sif};

/// Why no image was made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    #[error("{}: it is a socket, which no image can hold; --skip-special leaves it out", .0.display())]
    Socket(PathBuf),
    /// A place or a number that will not do.
    #[error("{}: {why}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// A SIF that cannot be read.
    #[error("{}", path.display())]
    Sif {
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: sif::Error,
    },
    /// A SIF that nothing can be added to.
    #[error("{}", path.display())]
    Closed {
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: sif::NotExtendable,
    },
    /// A SIF that cannot be written.
    #[error("{}", path.display())]
    SifWrite {
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: sif::WriteError,
    },
    /// An overlay that cannot be made.
    #[error("{}", path.display())]
    Overlay {
        /// The file that it was to be in.
        path: PathBuf,
        /// Why not.
        source: ext3::Error,
    },
    /// A number that squashfs has no room for.
    #[error("too much for one image: {0}")]
    TooMuch(&'static str),
}

impl Error {
    pub(crate) fn at<E: Into<io::Error>>(
        operation: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Error {
        move |source| Error::At { operation, path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn overlay(path: &Path) -> impl FnOnce(ext3::Error) -> Error {
        move |source| Error::Overlay { path: path.to_owned(), source }
    }

    pub(crate) fn sif_write(path: &Path) -> impl FnOnce(sif::WriteError) -> Error {
        move |source| Error::SifWrite { path: path.to_owned(), source }
    }
}
