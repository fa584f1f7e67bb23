//! What can go wrong while an image is made.

use std::io;
use std::path::{Path, PathBuf};

use image_format::SquashWriteError;
use image_format::{ext3, sif};

/// Why no image was made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
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
    /// The sources could not be read, or not be written as squashfs.
    #[error(transparent)]
    Squash(#[from] SquashWriteError),
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
        source: sif::SifReadError,
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
        source: sif::SifWriteError,
    },
    /// An overlay that cannot be made.
    #[error("{}", path.display())]
    Overlay {
        /// The file that it was to be in.
        path: PathBuf,
        /// Why not.
        source: ext3::Ext3Error,
    },
}

impl ImageError {
    pub(crate) fn at<E: Into<io::Error>>(
        operation: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> ImageError {
        move |source| ImageError::At { operation, path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn overlay(path: &Path) -> impl FnOnce(ext3::Ext3Error) -> ImageError {
        move |source| ImageError::Overlay { path: path.to_owned(), source }
    }

    pub(crate) fn sif_write(path: &Path) -> impl FnOnce(sif::SifWriteError) -> ImageError {
        move |source| ImageError::SifWrite { path: path.to_owned(), source }
    }
}
