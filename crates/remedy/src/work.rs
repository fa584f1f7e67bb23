//! Does changes: once all new files are beside their targets, renames.
//!
//! Before that, the caller makes the journal say that renaming may begin.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use recording::ByteUnits;
use rustix::io::Errno;

use crate::change::{FileChange, Item, ItemKind, Turn};
use crate::content::NewContent;
use crate::directory_times::{DirectoryChange, DirectoryTimes};
use crate::durable::{self, TouchedDirectories};
use crate::held::{HeldDirectory, exchanged};
use crate::journal::temporary_prefix;
use crate::path_map::PathMap;
use crate::stamp::FileStamp;
use crate::{Changed, Error, Options, pool};

/// A change that is to be made, and what it takes.
pub(crate) struct FileWork<'a> {
    pub(crate) change: FileChange,
    /// Of each path that is there, what was found at it.
    pub(crate) stamps: Vec<FileStamp>,
    /// The content of a file that is added.
    pub(crate) content: NewContent<'a>,
    /// The new files, beside their targets.
    pub(crate) temporaries: Vec<PathBuf>,
    /// The device of the directory that it is in, where that is known.
    pub(crate) device: Option<u64>,
    /// How many bytes a file that is patched takes on the disk, where that is known.
    pub(crate) taken: Option<u64>,
    /// The file that these are names of, once it is written: nothing else is renamed.
    pub(crate) written: Option<FileStamp>,
    /// Whether something of it may have been made: what has not been begun need not be taken back.
    begun: AtomicBool,
}

/// See [`Options::large`].
pub(crate) const LARGE: ByteUnits = ByteUnits(64 << 20);

impl<'a> FileWork<'a> {
    pub(crate) fn new(
        change: FileChange,
        stamps: Vec<FileStamp>,
        content: NewContent<'a>,
    ) -> FileWork<'a> {
        let (temporaries, device, taken, written) = (Vec::new(), None, None, None);
        let begun = AtomicBool::new(false);
        FileWork { change, stamps, content, temporaries, device, taken, written, begun }
    }

    /// Whether something of it may have been made.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Says so, before the call that makes it.
    fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }

    /// The device of the directory that one of its paths is in, where that is known.
    pub(crate) fn device_of(&self, path: &Path) -> Option<u64> {
        let is_in_it = directory_of(path) == directory_of(self.change.path());
        self.device.filter(|_| is_in_it)
    }

    /// Its first new file; the root, where there is none.
    pub(crate) fn temporary(&self) -> &Path {
        self.temporaries.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// What is left of it if it does not come to be made.
    pub(crate) fn litter(&self) -> impl Iterator<Item = PathBuf> {
        self.temporaries.iter().cloned().chain(self.change.aside())
    }
}

/// Gives every job the names of its temporaries, which nothing else has.
///
/// # Errors
/// If the system has no random bytes.
pub(crate) fn name_temporaries(jobs: &mut [FileWork], id: &str) -> Result<(), Error> {
    let prefix = fresh_prefix(id)?;
    for (number, job) in jobs.iter_mut().enumerate() {
        let name =
            |(at, directory): (usize, &Path)| directory.join(format!("{prefix}-{number}-{at}"));
        let directories = match &job.change {
            FileChange::Patch(patch) => patch.names.iter().map(|name| directory_of(name)).collect(),
            FileChange::Add(item) => vec![there_above(&item.path)],
            FileChange::Replace(_) => vec![directory_of(job.change.path())],
            FileChange::Remove(_) => vec![],
        };
        job.temporaries = directories.into_iter().enumerate().map(name).collect();
    }
    Ok(())
}

/// Gives each file that is removed or replaced the name beside it that it keeps, if it is large, or
/// gives way to what a journal knows by its inode: such a one is likely to be known so itself.
pub(crate) fn name_asides(jobs: &mut [FileWork], id: &str, large: ByteUnits) -> Result<(), Error> {
    let prefix = fresh_prefix(id)?;
    for (number, job) in jobs.iter_mut().enumerate() {
        let is_taken = matches!(job.content, NewContent::Written(_));
        if let Some(item) = job.change.removed_mut()
            && let ItemKind::File { version, aside, .. } = &mut item.thing
            && (is_taken || version.size >= large)
        {
            *aside = Some(format!("{prefix}-{number}-kept"));
        }
    }
    Ok(())
}

/// How names of an id begin that nothing else has.
pub(crate) fn fresh_prefix(id: &str) -> Result<String, Error> {
    let mut random = [0; 6];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Error::at("getrandom", Path::new("/dev/urandom"), error))?;
    Ok(format!("{}{}", temporary_prefix(id), crate::text::to_hex(&random)))
}

/// The directory that a path is in.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// The nearest directory above a path that is there.
pub(crate) fn there_above(path: &Path) -> &Path {
    path.ancestors().skip(1).find(|directory| directory.is_dir()).unwrap_or(Path::new("/"))
}

/// What is done when one of many changes cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// No other is begun.
    Stop,
    /// The others are made, as far as they can be.
    GoOn,
}

/// What came of changes that were to be made.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// Directories that could not be removed, because they are not empty.
    pub(crate) left: Vec<PathBuf>,
    /// Where it went on: what could not be made, and why.
    pub(crate) stays: Vec<Changed>,
}

/// Makes the changes, kind by kind, gives directories the times that are due, and waits until all is
/// on the disk.
///
/// # Errors
/// The first failure; where it goes on, only that what was made may not be on the disk.
pub(crate) fn commit(
    jobs: &[FileWork],
    times: &DirectoryTimes,
    on_failure: OnFailure,
    options: &Options,
) -> Result<Committed, Error> {
    let mut committed = Committed::default();
    let patched = PatchedDirectories::of(jobs, times);
    let mut touched = TouchedDirectories::default();
    let mut last = None;
    for turn in Turn::ALL {
        let due: Vec<_> = jobs.iter().filter(|job| job.change.turn() == turn).collect();
        if due.is_empty() {
            continue;
        }
        if let Some(first) = committed.stays.first().filter(|_| turn.removes()) {
            let needed = may_need(&first.path, due.iter().map(|job| &job.change));
            committed.stays.extend(needed);
            continue;
        }
        // What is patched may refer to what was added: that must have come to stay.
        if matches!((last, turn), (Some(Turn::AddDirectories | Turn::Add), Turn::Patch)) {
            durable::directories(&touched, times, options.threads)?;
            touched.clear();
        }
        last = Some(turn);
        let threads = if turn.is_ordered() { 1 } else { options.threads };
        let one = |_, job: &&FileWork| match commit_one(job, &patched) {
            Err(failed) if on_failure == OnFailure::GoOn => Ok(Err(failed.stays(job))),
            done => done.map(Ok).map_err(|failed| failed.failure),
        };
        for done in pool::each(threads, &due, one)? {
            match done {
                Ok(left) => committed.left.extend(left),
                Err(stays) => committed.stays.extend(stays),
            }
        }
        for job in &due {
            for path in job.change.paths() {
                *touched.entry(directory_of(path)) = job.device_of(path);
            }
        }
        if turn == Turn::RemoveDirectories {
            // One that was removed is on the disk as a change of the one above it.
            touched.retain(Path::is_dir);
        }
    }
    times.give_back();
    durable::directories(&touched, times, options.threads)?;
    Ok(committed)
}

/// Of what was to be removed, that it stays: something else stays changed, and may need it. Of what
/// lies in a directory that stays, the directory is told.
pub(crate) fn may_need<'a>(
    other: &Path,
    changes: impl Iterator<Item = &'a FileChange>,
) -> Vec<Changed> {
    let mut paths: Vec<_> = changes.map(FileChange::path).collect();
    paths.sort_unstable();
    paths.dedup_by(|inner, outer| inner.starts_with(outer));
    let reason = format!("stays, since {} stays changed and may need it", other.display());
    let stays = |path: &Path| Changed { path: path.to_owned(), reason: reason.clone(), by: None };
    paths.into_iter().map(stays).collect()
}

/// Directories in which names are still to be renamed: the last gives the directory its times, while it is
/// open.
struct PatchedDirectories<'a> {
    times: &'a DirectoryTimes,
    /// Of what else is changed in it, none is counted off: its times are given at the end.
    left: PathMap<AtomicUsize>,
}

impl<'a> PatchedDirectories<'a> {
    fn of(jobs: &'a [FileWork], times: &'a DirectoryTimes) -> PatchedDirectories<'a> {
        let mut left: PathMap<AtomicUsize> = PathMap::default();
        for path in jobs.iter().flat_map(|job| job.change.paths()) {
            *left.entry(directory_of(path)).get_mut() += 1;
        }
        PatchedDirectories { times, left }
    }

    /// A name in it was renamed.
    fn is_renamed(&self, directory: &Path, change: DirectoryChange) {
        match self.left.get(directory) {
            Some(left) if left.fetch_sub(1, Ordering::AcqRel) == 1 => change.made_last(),
            _ => change.made(),
        }
    }
}

/// A change that was not made, or not whole.
struct FailedCommit {
    failure: Error,
    /// Of a file with several names, how many lead to the new version already.
    renamed: usize,
}

impl From<Error> for FailedCommit {
    fn from(failure: Error) -> FailedCommit {
        FailedCommit { failure, renamed: 0 }
    }
}

impl FailedCommit {
    /// Each name that stays as it is, and why.
    fn stays(self, job: &FileWork) -> Vec<Changed> {
        let mut names = job.change.paths().iter().skip(self.renamed);
        let first = names.next().map_or(job.change.path(), |name| name.as_path());
        let reason = format!("stays changed, as its other name {} does", first.display());
        let stays =
            |name: &PathBuf| Changed { path: name.clone(), reason: reason.clone(), by: None };
        let others: Vec<_> = names.map(stays).collect();
        [self.failure.of_one(first)].into_iter().chain(others).collect()
    }
}

/// Makes one change; gives the directory back that it could not remove.
fn commit_one(
    job: &FileWork,
    patched: &PatchedDirectories,
) -> Result<Option<PathBuf>, FailedCommit> {
    match &job.change {
        FileChange::Patch(patch) => {
            let names = patch.names.iter().zip(&job.temporaries).zip(&job.stamps);
            for (renamed, ((name, temporary), stamp)) in names.enumerate() {
                let replaced = replace_name(job, patched, (name, temporary, stamp), renamed == 0);
                replaced.map_err(|failure| FailedCommit { failure, renamed })?;
            }
            Ok(None)
        }
        FileChange::Add(item) => Ok(add(item, job, patched.times).map(|()| None)?),
        FileChange::Remove(item) => Ok(remove(item, job, patched.times)?),
        FileChange::Replace(_) => Ok(replace(job, patched.times).map(|()| None)?),
    }
}

fn replace_name(
    job: &FileWork,
    patched: &PatchedDirectories,
    (name, temporary, stamp): (&Path, &Path, &FileStamp),
    is_first: bool,
) -> Result<(), Error> {
    let directory = patched.times.directory(name)?;
    // By its whole path: what is held may have been moved away.
    let found = FileStamp::at(name)?;
    // Renaming over one name changes the inode behind the others.
    if !(found == *stamp || !is_first && found.same_content(stamp)) {
        return Err(changed(name));
    }
    let change = patched.times.changing(name, &directory);
    is_as_written(job, &directory, temporary, is_first)?;
    job.begin();
    directory.rename(temporary, &directory, name)?;
    patched.is_renamed(directory_of(name), change);
    Ok(())
}

/// Whether a temporary is still what was written, and not written to since. Where another of its names
/// was renamed, its change time is another.
fn is_as_written(
    job: &FileWork,
    directory: &HeldDirectory,
    temporary: &Path,
    is_first: bool,
) -> Result<(), Error> {
    let found = directory.stamp(temporary)?;
    match job.written {
        Some(written) if written == found => Ok(()),
        Some(written) if !is_first && written.same_content(&found) => Ok(()),
        Some(written) if written.identity() == found.identity() => Err(changed(temporary)),
        _ => Err(exchanged(temporary)),
    }
}

fn add(item: &Item, job: &FileWork, times: &DirectoryTimes) -> Result<(), Error> {
    let Some(temporary) = job.temporaries.first() else { return Ok(()) };
    let (from, to) = (times.directory(temporary)?, HeldDirectory::of(&item.path)?);
    // Where it is another that it goes to, that is one that was added: it has no times yet.
    let change = times.changing(temporary, &from);
    is_as_written(job, &from, temporary, true)?;
    job.begin();
    from.move_to(temporary, item.thing.is_directory(), &to, &item.path)?;
    change.made();
    Ok(())
}

fn replace(job: &FileWork, times: &DirectoryTimes) -> Result<(), Error> {
    let path = job.change.path();
    let Some(temporary) = job.temporaries.first() else { return Ok(()) };
    let (from, to) = (times.directory(temporary)?, HeldDirectory::of(path)?);
    if job.stamps.first() != Some(&to.stamp(path)?) {
        return Err(changed(path));
    }
    let change = times.changing(temporary, &from);
    is_as_written(job, &from, temporary, true)?;
    job.begin();
    from.rename(temporary, &to, path)?;
    change.made();
    Ok(())
}

fn remove(item: &Item, job: &FileWork, times: &DirectoryTimes) -> Result<Option<PathBuf>, Error> {
    let path = &item.path;
    let directory = HeldDirectory::of(path)?;
    let change = times.changing(path, &directory);
    if item.thing.is_directory() {
        job.begin();
        return match directory.remove_directory(path) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Some(path.clone())),
            Err(error) => Err(Error::at("rmdir", path, error)),
            Ok(()) => {
                change.made();
                Ok(None)
            }
        };
    }
    if job.stamps.first() != Some(&directory.stamp(path)?) {
        return Err(changed(path));
    }
    job.begin();
    directory.unlink(path).map_err(|error| Error::at("unlink", path, error))?;
    change.made();
    Ok(None)
}

/// A file is not the one that was looked at.
pub(crate) fn changed(path: &Path) -> Error {
    Error::refused(path, "changed while becalm was at work")
}
