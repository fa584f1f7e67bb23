//! What can go wrong, with the path and the operation.

use std::io;
use std::path::{Path, PathBuf};

use access::ForeignPath;
use recording::ByteUnits;

/// Why a plan was not applied, or not undone. Unless it says otherwise, every file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call on a file failed.
    #[error("{}: {operation}: {error}", path.display())]
    Call {
        /// Which file.
        path: PathBuf,
        /// Which call, or what it was for.
        operation: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// A file is not one that becalm changes, or not changes without risk.
    #[error("{}: {reason}", path.display())]
    Refused {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A filesystem has no room for the new files beside the old.
    #[error(
        "{}: its filesystem lacks room: {} bytes are needed, {} are free",
        directory.display(), needed.0, free.0
    )]
    NoRoom {
        /// A directory on it.
        directory: PathBuf,
        /// What is needed.
        needed: ByteUnits,
        /// What is free.
        free: ByteUnits,
    },
    /// A file is no plan that this becalm can read.
    #[error("{}: is no plan that this becalm can read: {problem}", path.display())]
    NoPlan {
        /// Which file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// A plan has no steps, or all that it asks for is there already.
    #[error("the plan changes nothing")]
    Empty,
    /// There is no state directory to be found.
    #[error(
        "no place for becalm's state: set XDG_STATE_HOME, or HOME to a directory that is there"
    )]
    NoState,
    /// Somebody else can change what is in the state directory, or has put it there.
    #[error("{}", of_foreign(state, why))]
    Foreign {
        /// The state directory.
        state: PathBuf,
        /// What in it or above it.
        why: Box<ForeignPath>,
    },
    /// Another becalm applies or undoes something with the same state directory.
    #[error("{}: another becalm is at work; try again when it has ended", state.display())]
    Busy {
        /// The state directory.
        state: PathBuf,
    },
    /// The filesystem of the state directory has no locks.
    #[error(
        "{}: its filesystem gives no lock ({error}); set XDG_STATE_HOME to a directory on another one",
        state.display()
    )]
    NoLock {
        /// The state directory.
        state: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// There is nothing with that id.
    #[error("nothing was applied under the id {id:?}; `becalm undo --list` shows what was")]
    Unknown {
        /// The id asked for.
        id: String,
    },
    /// There is nothing to undo.
    #[error("nothing to undo")]
    Nothing,
    /// It was undone before.
    #[error("{id} was undone already")]
    Undone {
        /// Its id.
        id: String,
    },
    /// What was kept to undo it was given up.
    #[error("{id}: what was kept to undo it was removed by becalm undo --forget")]
    Forgotten {
        /// Its id.
        id: String,
    },
    /// A journal is damaged in the middle, and does not say what was done.
    #[error("{}: the journal is damaged at byte {at}: nothing can be concluded from it", path.display())]
    Damaged {
        /// The journal's file.
        path: PathBuf,
        /// Where it stops making sense.
        at: u64,
    },
    /// Files are not as the plan's application left them, or cannot be changed now, so nothing was
    /// undone.
    #[error("{}{}", changed[0], more(changed.len() - 1))]
    Changed {
        /// Each of them, at least one.
        changed: Vec<Changed>,
    },
    /// It was asked to end before all was done ([`crate::Options::is_asked_to_end`]).
    #[error("asked to end; every file is as it was")]
    AskedToEnd,
    /// Applying failed, and so did taking back what had been done already: some files are old,
    /// some are new, none is anything else.
    #[error(
        "{failure}; and taking back what was done failed, too: {second}. Once that is mended: becalm undo {id}"
    )]
    Interrupted {
        /// The id to undo.
        id: String,
        /// What went wrong first.
        failure: Box<Error>,
        /// What went wrong then.
        second: Box<Error>,
    },
    /// Applying failed, and all that could be taken back is as it was. What could not be is told.
    #[error("{failure}; all else is as it was, but {}{}. Once that is mended: becalm undo {id}", stays[0], more(stays.len() - 1))]
    PartlyTakenBack {
        /// The id to undo.
        id: String,
        /// What went wrong first.
        failure: Box<Error>,
        /// What is not as it was, and why: at least one.
        stays: Vec<Changed>,
    },
}

/// Whose it is, and the way out.
fn of_foreign(state: &Path, why: &ForeignPath) -> String {
    let other = "set XDG_STATE_HOME to a directory that only you can write to";
    let way = match why.closing() {
        Some(chmod) => format!("if nobody else has written there: {chmod}; or {other}"),
        None if why.path != state && why.path.starts_with(state) => {
            "nothing of yours lies there; remove it, or have it removed".to_owned()
        }
        None => other.to_owned(),
    };
    format!("{why}: nothing that lies there is obeyed; {way}")
}

fn more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(" (and {others} more)") }
}

/// A file that is not what the plan's application left, or that cannot be taken back now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, schemars::JsonSchema)]
#[error("{}: {reason}", path.display())]
pub struct Changed {
    /// Which file.
    #[serde(with = "crate::text::path")]
    #[schemars(with = "crate::text::TextForm")]
    pub path: PathBuf,
    /// What is different, or forbids it.
    pub reason: String,
    /// The later application that changed it, where there is one that is not undone.
    pub by: Option<String>,
}

impl Error {
    pub(crate) fn at(operation: &'static str, path: &Path, error: impl Into<io::Error>) -> Error {
        Error::Call { path: path.to_owned(), operation, error: error.into() }
    }

    /// Why one of many files is not taken back now, as it is told of one that has changed.
    pub(crate) fn of_one(self, path: &Path) -> Changed {
        let reason = match self {
            Error::Refused { path: of, reason } if of == path => reason,
            error => format!("cannot be taken back: {error}"),
        };
        Changed { path: path.to_owned(), reason, by: None }
    }

    pub(crate) fn refused(path: &Path, reason: impl Into<String>) -> Error {
        Error::Refused { path: path.to_owned(), reason: reason.into() }
    }
}
