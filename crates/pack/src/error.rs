//! Why there is no pack, or none that is used.

use std::io;
use std::path::{Path, PathBuf};

/// Why a program is not packed, or its pack not used.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// This machine is no x86-64.
    #[error("packs are for x86-64 only: the loader's state is not known on this machine")]
    Machine,
    /// The program.
    #[error("{} cannot be packed: {reason}", .program.display())]
    Refused {
        /// Which.
        program: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file is none.
    #[error("{}: is no pack of becalm elf pack", .0.display())]
    NoPack(PathBuf),
    /// The pack.
    #[error("{}: {reason}", .file.display())]
    Unusable {
        /// Which.
        file: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// A file operation.
    #[error("cannot {doing} {}: {error}", .path.display())]
    File {
        /// What failed.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl PackError {
    /// An operation on a file that fails.
    pub(crate) fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PackError {
        let path = path.to_owned();
        move |error| PackError::File { doing, path, error }
    }

    /// A pack that is not used.
    pub(crate) fn unusable(file: &Path, reason: impl Into<String>) -> PackError {
        PackError::Unusable { file: file.to_owned(), reason: reason.into() }
    }
}
