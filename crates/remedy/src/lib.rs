#![doc = include_str!("../README.md")]
//!
//! Every file is at each moment old or new, never anything else; power may fail between any two
//! system calls. What cannot be done with all that a file has (owner, times, ACLs, hard links…)
//! is refused before anything is written.
//!
//! | file | what it holds |
//! |---|---|
//! | `plan` | the plan: what is to be done, as data |
//! | `text` | bytes, paths and permissions in JSON |
//! | `check` | a plan against the files: every reason to refuse it |
//! | `checked_files` | what a check found out, so that applying does not ask again |
//! | `change` | one change, resolved, with all that its inverse needs |
//! | `work` | doing changes: renames, once the new files are there |
//! | `clean` | removing what was left beside files |
//! | `new_files` | writing these beside their targets |
//! | `content` | the content of a new file, and where it comes from |
//! | `held` | a directory held open, in which others may write, too |
//! | `held_directories` | those that stay open until all is done in them |
//! | `path_map` | maps by path |
//! | `rewrite` | the patched version of a file, in one pass |
//! | `holes` | the parts of a file that take no room, and stay so |
//! | `attributes` | what a file has beside its content |
//! | `directory_times` | when directories were read and changed, and that they get it back |
//! | `durable` | until it is on the disk |
//! | `apply` | the six steps of an application |
//! | `undo` | the way back |
//! | `forget` | no way back any more: what is kept for it goes |
//! | `look` | whether a change has been made: the files tell |
//! | `renew` | a file of becalm's own, made anew as often as what it tells of changes |
//! | `journal` | what was done and how to take it back, on the disk before it is done |
//! | `state` | the directory of the journals, their ids, and the lock |
//! | `list` | what was applied, and what became of it |
//! | `manifest` | what was applied, for `sha256sum --check` |
//! | `file_state` | what a file was, and whether it still is |
//! | `stamp`, `digest`, `tally`, `pool` | is it the same file; its content; how much; many at a time |

mod apply;
mod attributes;
mod change;
mod check;
mod checked_files;
mod clean;
mod content;
mod digest;
mod directory_times;
mod durable;
mod error;
mod file_state;
mod forget;
mod held;
mod held_directories;
mod holes;
mod journal;
mod list;
mod look;
mod manifest;
mod new_files;
mod path_map;
mod plan;
mod pool;
mod relying;
mod renew;
mod rewrite;
mod stamp;
mod state;
mod tally;
mod text;
mod undo;
mod work;
mod writers;

use std::path::{Path, PathBuf};

use recording::ByteUnits;

pub use apply::{Applied, apply, check, extend, obstacles};
pub use check::Obstacle;
pub use checked_files::CheckedFiles;
pub use digest::Digest;
pub use error::{Changed, Error};
pub use file_state::{FileLook, FileState, HAS_CHANGED};
pub use forget::{Forgotten, forget};
pub use list::{Entry, Status, last, last_of, list, status};
pub use manifest::{Manifest, ManifestEntry, manifest};
pub use plan::{Counts, Edit, Plan, PredictedCounts, Seen, Step};
pub use pool::each as each_at_once;
pub use renew::renew;
pub use state::{made_state_directory, state_directory, unasked_state_directory};
pub use tally::Tally;
pub use undo::{UndoOptions, Undone, undo};

/// Where the state is, and how fast to work.
pub struct Options<'a> {
    /// becalm's state directory: [`state_directory`].
    pub state: PathBuf,
    /// How many files to work on at a time; at least 1.
    pub threads: usize,
    /// From which size on a file that is replaced or removed is kept by another name beside it, and
    /// not copied; by default 64 MiB.
    pub large: ByteUnits,
    /// What was found out about the plan's files before, and will be.
    pub checked: Option<&'a CheckedFiles>,
    /// Told how far it is. Called from several threads.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// Whether to end before all is done, with every file as it was: [`Error::AskedToEnd`]. Asked, by several threads,
    /// until files begin to be renamed: from there on it is sooner done than taken back.
    pub is_asked_to_end: &'a (dyn Fn() -> bool + Sync),
    /// Told the state directory, once, where another becalm is at work there: it is waited for, until it is asked to
    /// end. Without it, that is [`Error::Busy`].
    pub waits: Option<&'a (dyn Fn(&Path) + Sync)>,
}

impl Options<'_> {
    /// Fails where it is asked to end.
    pub(crate) fn may_go_on(&self) -> Result<(), Error> {
        if (self.is_asked_to_end)() { Err(Error::AskedToEnd) } else { Ok(()) }
    }

    /// The same to its end.
    pub(crate) fn to_the_end(&self) -> Options<'_> {
        Options { state: self.state.clone(), is_asked_to_end: &|| false, ..*self }
    }
}

impl Options<'static> {
    /// With that state directory, as many threads as suit this machine, and no word on progress.
    pub fn new(state: PathBuf) -> Options<'static> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (large, checked) = (work::LARGE, None);
        let (progress, is_asked_to_end) = (&|_| {}, &|| false);
        Options { state, threads, large, checked, progress, is_asked_to_end, waits: None }
    }
}

/// How far it is: how many changes have their new file written beside its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// So many.
    pub written: usize,
    /// Of so many.
    pub of: usize,
}
