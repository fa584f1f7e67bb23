//! Why an image cannot be staged.

use std::io;
use std::path::{Path, PathBuf};

use crate::extract::ExtractError;
use crate::mount::{MountError, MountRequest};

/// Why an image cannot be staged.
#[derive(Debug, thiserror::Error)]
pub enum ImageStageError {
    /// The image, or what was asked for with it.
    #[error(transparent)]
    Image(#[from] MountError),
    /// It cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] ExtractError),
    /// A file, and what was done with it.
    #[error("{}: cannot {what}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was done with it.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// What takes a mount.
    #[error("{0} cannot be staged: it takes a mount")]
    TakesMount(&'static str),
    /// No directory that is in memory of the node.
    #[error("there is no memory to stage to: {0}; name a directory of this node with --stage=DIR")]
    NoMemory(String),
    /// A directory that cannot be trusted, or used.
    #[error("{}: {why}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It does not fit.
    #[error(
        "{} needs {needed} MB in {}, and {what} has {free} MB of {total} MB free, a twentieth of \
         which is left alone", .image.display(), .directory.display()
    )]
    NoRoom {
        /// The image.
        image: PathBuf,
        /// Where it would go.
        directory: PathBuf,
        /// What it takes, in MB.
        needed: u64,
        /// What has too little room: the directory, the node's memory, or the job's.
        what: String,
        /// What it has left, in MB.
        free: u64,
        /// What it has in all, in MB.
        total: u64,
    },
    /// What stopped the rank that this one waited for.
    #[error("{0} (said to another rank of this node, which was to unpack it)")]
    Other(String),
}

/// For `map_err`: an error of this file, at this work.
pub(super) fn file<E: Into<io::Error>>(
    path: &Path,
    what: &'static str,
) -> impl FnOnce(E) -> ImageStageError {
    let path = path.to_owned();
    move |error| ImageStageError::File { path, what, error: error.into() }
}

/// Refuses what only a mount can do.
pub(super) fn check(wanted: &MountRequest) -> Result<(), ImageStageError> {
    if !wanted.beside.is_empty() {
        return Err(ImageStageError::TakesMount("more than one image"));
    }
    match (wanted.overlays.is_empty(), wanted.binds.is_empty()) {
        (false, _) => Err(ImageStageError::TakesMount("an image with --overlay")),
        // Those of a calm file are copies in the place of files.
        (_, false) if wanted.condition.is_some() => {
            Err(ImageStageError::TakesMount("a copy in its file's place"))
        }
        (_, false) => Err(ImageStageError::TakesMount("an image with --bind")),
        _ => Ok(()),
    }
}
