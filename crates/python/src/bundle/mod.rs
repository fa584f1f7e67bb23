//! A bundle: the code that a start imports in one file, and a finder that serves it.
//!
//! The last resort where no mount is possible. [`pack`] asks the interpreter itself for the code
//! of each source, and lists what importlib's `FileFinder` would find in each directory that was
//! searched. The file ends in a zip archive with a `sitecustomize`, so a PYTHONPATH that begins
//! with it is all that a Python needs to use it: see `finder.py`.
//!
//! | file | what it holds |
//! |---|---|
//! | `traced` | what a recording's Python looked for: directories and sources, in their order |
//! | `walk` | the directories below a path |
//! | `directory` | what FileFinder would find in a directory |
//! | `interpreter`, `pack.py` | the interpreter: what it is, and the code that it would run |
//! | `sources` | which directories and sources are taken, in which order |
//! | `pack` | all of it together |
//! | `index` | the bundle's header and index, as text |
//! | `file` | the file, written |
//! | `zip` | the archive at its end |
//! | `open` | a bundle that may be used: whose it is, whether it is whole |
//! | `finder.py` | what answers imports |

mod directory;
mod file;
mod index;
mod interpreter;
mod open;
mod pack;
mod sources;
mod traced;
mod walk;
mod zip;

pub use interpreter::Interpreter;
pub use open::{Bundle, Check, DistrustError};
pub use pack::{NotTaken, Packed, Wanted, Why, pack};
pub use traced::{Traced, traced};

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file or directory.
    #[error("{}: {error}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// The interpreter gives no answer.
    #[error("{}: {why}", .program.display())]
    Interpreter {
        /// The interpreter.
        program: PathBuf,
        /// Why.
        why: String,
    },
    /// There is nothing to pack.
    #[error("no Python source was imported from a directory, and none is below a path given")]
    Nothing,
    /// There is something else.
    #[error("{}: it exists and is no bundle; choose another name or remove it", .0.display())]
    Taken(PathBuf),
}

impl BundleError {
    fn file(path: &Path, error: io::Error) -> BundleError {
        BundleError::File { path: path.to_owned(), error }
    }
}
