//! What can be wrong with an image.

use std::io;

/// Why something could not be read from an image.
#[derive(Debug, thiserror::Error)]
pub enum SquashReadError {
    /// The system said no.
    #[error("the image cannot be read")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("not a squashfs image: {0}")]
    NotSquashfs(&'static str),
    /// It is compressed in a way that is not known here.
    #[error("it is compressed with {0}; gzip, lzma, lzo, xz, lz4 and zstd are read")]
    Unsupported(&'static str),
    /// Its content contradicts itself, or is cut off.
    #[error("damaged image: {what} (at byte {at})")]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Where.
        at: u64,
    },
    /// A file was asked for something that it does not have: a listing, a target.
    #[error("it is no {0}")]
    IsNo(&'static str),
}

impl SquashReadError {
    pub(crate) fn damaged<T>(what: &'static str, at: u64) -> Result<T, SquashReadError> {
        Err(SquashReadError::Damaged { what, at })
    }
}
