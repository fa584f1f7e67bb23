//! Why logs cannot be read.

use std::io;
use std::path::PathBuf;

use crate::aslr::log::SCHEMA;

/// Why logs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogReadError {
    /// The operating system's.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// A pipe or a device: what can be read only once, and perhaps never ends.
    #[error("{}: is no regular file", path.display())]
    NoFile {
        /// Which.
        path: PathBuf,
    },
    /// A file that holds nothing to analyze.
    #[error(
        "{}: holds no times: neither 'CT: rank min max avg stddev' lines, nor a campaign's log, \
         nor a number a line",
        path.display()
    )]
    Nothing {
        /// The file, or the directory of such.
        path: PathBuf,
    },
    /// Two forms in one file.
    #[error("{}, line {line}: is of another form than the lines above it", path.display())]
    Mixed {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
    },
    /// The same file twice, which would count it twice.
    #[error("{}: is given twice", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
    },
    /// A later version's log.
    #[error("{}: is {schema}, and this becalm reads {SCHEMA}", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// What its header says.
        schema: String,
    },
    /// More than is analyzed.
    #[error("more than {most} processes: analyze them in parts")]
    TooMany {
        /// The limit.
        most: usize,
    },
}
