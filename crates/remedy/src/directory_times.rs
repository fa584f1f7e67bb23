//! The times of directories: undoing gives them back as it gives back those of files.
//!
//! Where bytes of files are patched, nothing that a directory lists is another, and not even their
//! times are: its own is given back at once. (Its change time, which NFS clients look at, is new.)
//! Where files come, go or are replaced, whoever keeps a list has to see it: the time is given back
//! when they are taken back, unless somebody else has changed the directory since.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{Timespec, Timestamps};
use serde::{Deserialize, Serialize};

use crate::change::FileChange;
use crate::held::HeldDirectory;
use crate::held_directories::HeldDirectories;
use crate::path_map::PathMap;
use crate::work::{FileWork, directory_of};
use crate::{Error, text};

/// When a directory was read and changed last: seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccessAndChange {
    atime: (i64, i64),
    mtime: (i64, i64),
}

/// A directory in which files came, went or were replaced, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangedDirectory {
    #[serde(with = "text::path")]
    pub(crate) path: PathBuf,
    pub(crate) before: AccessAndChange,
    pub(crate) after: AccessAndChange,
}

/// The directories that some jobs change: what their times were, and whether they shall be so again.
#[derive(Default)]
pub(crate) struct DirectoryTimes(PathMap<FoundTimes>);

struct FoundTimes {
    /// Itself, where it stays open.
    held: Option<Arc<HeldDirectory>>,
    found: AccessAndChange,
    /// Those that it gets once the jobs are done.
    due: Option<AccessAndChange>,
    /// It has got them already.
    given: AtomicBool,
}

impl DirectoryTimes {
    /// Before anything is written. What is not there yet has none.
    pub(crate) fn of(jobs: &[FileWork], held: &HeldDirectories) -> DirectoryTimes {
        let mut is_relisted: PathMap<bool> = PathMap::default();
        for job in jobs {
            let is_patched = matches!(job.change, FileChange::Patch(_));
            for path in job.change.paths() {
                *is_relisted.entry(directory_of(path)) |= !is_patched;
            }
            for path in &job.temporaries {
                let _ = is_relisted.entry(directory_of(path));
            }
        }
        let mut times = PathMap::default();
        for (directory, is_relisted) in is_relisted.iter() {
            if let Some((open, found, is_held)) = held.now(directory) {
                let held = is_held.then_some(open);
                let due = (!is_relisted).then_some(found);
                let given = AtomicBool::new(false);
                times.insert(directory, FoundTimes { held, found, due, given });
            }
        }
        DirectoryTimes(times)
    }

    /// The same directories, which get no times: whoever asks gives them back himself.
    pub(crate) fn undue(&self) -> DirectoryTimes {
        let undue = |(path, times): (&Path, &FoundTimes)| {
            let given = AtomicBool::new(false);
            let held = times.held.clone();
            (path.to_owned(), FoundTimes { held, found: times.found, due: None, given })
        };
        DirectoryTimes(self.0.iter().map(undue).collect())
    }

    /// The directory that a path is in.
    ///
    /// # Errors
    /// Those of [`HeldDirectory::open`].
    pub(crate) fn directory(&self, path: &Path) -> Result<Arc<HeldDirectory>, Error> {
        self.at(directory_of(path))
    }

    /// The directory at a path.
    ///
    /// # Errors
    /// Those of [`HeldDirectory::open`].
    pub(crate) fn at(&self, directory: &Path) -> Result<Arc<HeldDirectory>, Error> {
        match self.0.get(directory).and_then(|times| times.held.as_ref()) {
            Some(held) => Ok(Arc::clone(held)),
            None => HeldDirectory::open(directory).map(Arc::new),
        }
    }

    /// What is taken back has the times that it had before, where nobody else has changed it.
    pub(crate) fn taking_back(mut self, changed: &[ChangedDirectory]) -> DirectoryTimes {
        for ChangedDirectory { path, before, after } in changed {
            if let Some(times) = self.0.get_mut(path)
                && times.found.mtime == after.mtime
            {
                times.due = Some(*before);
            }
        }
        self
    }

    /// Gives those back that are due. To set a time is the owner's alone: elsewhere it stays.
    pub(crate) fn give_back(&self) {
        for (path, times) in self.0.iter().filter(|(_, times)| !times.given.load(Relaxed)) {
            self.give(path, times.due);
        }
    }

    /// The same of one that is open, in which nothing will be changed any more.
    pub(crate) fn give_back_to(&self, path: &Path, directory: &HeldDirectory) {
        if let Some(times) = self.0.get(path)
            && let Some(due) = times.due
        {
            directory.give_times(due);
            times.given.store(true, Relaxed);
        }
    }

    /// Nothing was done: gives all of them back.
    pub(crate) fn give_all_back(&self) {
        for (path, times) in self.0.iter() {
            self.give(path, Some(times.found));
        }
    }

    /// Those in which files have come, gone or been replaced, for the journal.
    pub(crate) fn changed(&self) -> Vec<ChangedDirectory> {
        let relisted = self.0.iter().filter(|(_, times)| times.due.is_none());
        let changed = |(path, times): (&Path, &FoundTimes)| {
            let after = HeldDirectory::open(path).ok()?.times()?;
            Some(ChangedDirectory { path: path.to_owned(), before: times.found, after })
        };
        let mut all: Vec<_> = relisted.filter_map(changed).collect();
        all.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        all
    }

    fn give(&self, path: &Path, times: Option<AccessAndChange>) {
        if let Some(times) = times
            && let Ok(directory) = self.at(path)
        {
            directory.give_times(times);
        }
    }
}

/// What two applications under one id have made of directories: as if they were one.
pub(crate) fn extend(known: &mut Vec<ChangedDirectory>, more: Vec<ChangedDirectory>) {
    for changed in more {
        match known.iter_mut().find(|earlier| earlier.path == changed.path) {
            Some(earlier) if earlier.after.mtime == changed.before.mtime => {
                earlier.after = changed.after;
            }
            Some(earlier) => *earlier = changed,
            None => known.push(changed),
        }
    }
}

impl AccessAndChange {
    pub(crate) fn of(found: &rustix::fs::Stat) -> AccessAndChange {
        // The types are those of the C library, and differ between machines.
        #[allow(clippy::unnecessary_cast)]
        AccessAndChange {
            atime: (found.st_atime as i64, found.st_atime_nsec as i64),
            mtime: (found.st_mtime as i64, found.st_mtime_nsec as i64),
        }
    }

    pub(crate) fn timestamps(self) -> Timestamps {
        let time = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
        Timestamps { last_access: time(self.atime), last_modification: time(self.mtime) }
    }
}
