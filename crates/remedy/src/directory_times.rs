//! The times of directories: undoing gives them back as it gives back those of files.
//!
//! Where bytes of files are patched, nothing that a directory lists is another, and not even their
//! times are: its own is given back at once. (Its change time, which NFS clients look at, is new.)
//! Where files come, go or are replaced, whoever keeps a list has to see it: the time is given back
//! when they are taken back, unless somebody else has changed the directory since.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
pub(crate) struct DirectoryTimes(PathMap<WatchedDirectory>);

struct WatchedDirectory {
    /// Itself, where it stays open.
    held: Option<Arc<HeldDirectory>>,
    /// Whether names come, go, or lead to other files.
    is_relisted: bool,
    /// What it was before it was applied what is taken back now, and what that had left.
    before: Option<(AccessAndChange, AccessAndChange)>,
    seen: Mutex<SeenChanges>,
}

/// What was seen of a directory while something was changed in it. By the time alone: a change of somebody
/// else's shows between two of becalm's own, or after them.
#[derive(Debug, Default)]
struct SeenChanges {
    /// Its times before the first change.
    found: Option<AccessAndChange>,
    /// When it was changed last, by becalm.
    changed: Option<(i64, i64)>,
    /// Somebody else has changed it in between, so that its time is not becalm's to give back.
    by_others: bool,
    /// It has got its times already.
    is_given: bool,
}

impl SeenChanges {
    /// Compares what is there with what becalm has left.
    fn see(&mut self, directory: &HeldDirectory) {
        match directory.times() {
            Some(now) if self.found.is_none() => {
                (self.found, self.changed) = (Some(now), Some(now.mtime));
            }
            now => self.by_others |= self.changed != now.map(|now| now.mtime),
        }
    }

    fn give(&mut self, directory: &HeldDirectory, due: Option<AccessAndChange>) {
        if let Some(due) = due.filter(|_| !self.by_others) {
            directory.give_times(due);
            self.changed = Some(due.mtime);
        }
    }
}

/// One change in a directory, from just before it until just after. Others of becalm's own wait.
pub(crate) struct DirectoryChange<'a> {
    directory: &'a HeldDirectory,
    watched: Option<(&'a WatchedDirectory, MutexGuard<'a, SeenChanges>)>,
}

impl DirectoryChange<'_> {
    /// It is made, and not the last.
    pub(crate) fn made(self) {}

    /// It is made, and the last: the directory gets the times that are due.
    pub(crate) fn made_last(mut self) {
        if let Some((watched, seen)) = &mut self.watched
            && let Some(due) = watched.due(seen)
        {
            seen.give(self.directory, Some(due));
            seen.is_given = true;
            self.watched = None;
        }
    }
}

impl Drop for DirectoryChange<'_> {
    /// A call that failed may have been made in part, such as to make a directory and to open it.
    fn drop(&mut self) {
        if let Some((_, seen)) = &mut self.watched {
            seen.changed = self.directory.times().map(|now| now.mtime);
        }
    }
}

impl WatchedDirectory {
    /// The times that it gets once the jobs are done.
    fn due(&self, seen: &SeenChanges) -> Option<AccessAndChange> {
        let found = seen.found?;
        match self.before {
            Some((before, after)) if found.mtime == after.mtime => Some(before),
            _ => (!self.is_relisted).then_some(found),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SeenChanges> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
            if let Some(held) = held.held_at(directory) {
                let (is_relisted, seen) = (*is_relisted, Mutex::default());
                let watched = WatchedDirectory { held, is_relisted, before: None, seen };
                times.insert(directory, watched);
            }
        }
        DirectoryTimes(times)
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

    /// Before something is changed in the directory that a path is in, which is open.
    pub(crate) fn changing<'a>(
        &'a self,
        path: &Path,
        directory: &'a HeldDirectory,
    ) -> DirectoryChange<'a> {
        let watched = self.0.get(directory_of(path)).map(|watched| {
            let mut seen = watched.lock();
            seen.see(directory);
            (watched, seen)
        });
        DirectoryChange { directory, watched }
    }

    /// What is taken back has the times that it had before, where nobody else has changed it.
    pub(crate) fn taking_back(mut self, changed: &[ChangedDirectory]) -> DirectoryTimes {
        for ChangedDirectory { path, before, after } in changed {
            if let Some(watched) = self.0.get_mut(path) {
                watched.before = Some((*before, *after));
            }
        }
        self
    }

    /// Gives those back that are due. To set a time is the owner's alone: elsewhere it stays.
    pub(crate) fn give_back(&self) {
        for (path, watched) in self.0.iter() {
            let mut seen = watched.lock();
            if !seen.is_given {
                let due = watched.due(&seen);
                self.give(path, &mut seen, due);
            }
        }
    }

    /// Nothing was done: gives all of them back.
    pub(crate) fn give_all_back(&self) {
        for (path, watched) in self.0.iter() {
            let mut seen = watched.lock();
            let found = seen.found;
            self.give(path, &mut seen, found);
        }
    }

    fn give(&self, path: &Path, seen: &mut SeenChanges, times: Option<AccessAndChange>) {
        if times.is_some()
            && let Ok(directory) = self.at(path)
        {
            seen.see(&directory);
            seen.give(&directory, times);
        }
    }

    /// Those in which files have come, gone or been replaced, for the journal. Those that others have changed
    /// meanwhile keep their times for good.
    pub(crate) fn changed(&self) -> Vec<ChangedDirectory> {
        let relisted = self.0.iter().filter(|(_, watched)| watched.is_relisted);
        let changed = |(path, watched): (&Path, &WatchedDirectory)| {
            let mut seen = watched.lock();
            let (before, directory) = (seen.found?, self.at(path).ok()?);
            seen.see(&directory);
            let after = directory.times().filter(|_| !seen.by_others)?;
            Some(ChangedDirectory { path: path.to_owned(), before, after })
        };
        let mut all: Vec<_> = relisted.filter_map(changed).collect();
        all.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        all
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
