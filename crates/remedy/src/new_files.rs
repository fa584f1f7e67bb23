//! Writes new files beside their targets: what is patched, added, or takes another's place.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::change::{FileChange, FilePatch, Item, ItemKind, Replacement};
use crate::content;
use crate::directory_times::DirectoryTimes;
use crate::durable::{Filesystems, SyncMethod};
use crate::held::HeldDirectory;
use crate::rewrite::{self, Rewritten};
use crate::stamp::{self, FileStamp};
use crate::work::{FileWork, changed, directory_of};
use crate::{Changed, Error, Options, Progress, pool, writers};

/// Writes all new files beside their targets, and waits until they are on the disk. The changes
/// then know the versions before and after.
pub(crate) fn write(
    jobs: &mut [FileWork],
    directories: &DirectoryTimes,
    options: &Options,
) -> Result<(), Error> {
    let all = write_each(jobs, directories, options, |_, written| written)?;
    for (job, written) in jobs.iter_mut().zip(all) {
        (job.change, job.written) = written;
    }
    Ok(())
}

/// The same as far as it can be done: of the jobs whose new file cannot be written, why not. They are no
/// longer among the jobs, and come with what may be left of them.
///
/// # Errors
/// If it cannot be told whether what was written is on the disk, or it is asked to end.
pub(crate) fn write_possible<'a>(
    jobs: &mut Vec<FileWork<'a>>,
    directories: &DirectoryTimes,
    options: &Options,
) -> Result<Vec<(FileWork<'a>, Changed)>, Error> {
    let all = write_each(jobs, directories, options, |job, written| {
        Ok(written.map_err(|failure| failure.of_one(job.change.path())))
    })?;
    let mut failed = Vec::new();
    for (mut job, written) in std::mem::take(jobs).into_iter().zip(all) {
        match written {
            Ok(written) => {
                (job.change, job.written) = written;
                jobs.push(job);
            }
            Err(stays) => failed.push((job, stays)),
        }
    }
    Ok(failed)
}

/// What `come` makes of each job's writing; it ends at the first error that this gives.
fn write_each<R: Send>(
    jobs: &[FileWork],
    directories: &DirectoryTimes,
    options: &Options,
    come: impl Fn(&FileWork, Result<WrittenChange<FileChange>, Error>) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let new: Vec<_> = jobs.iter().flat_map(|job| &job.temporaries).collect();
    let way = SyncMethod::for_files(new.len());
    let touched = jobs.iter().flat_map(|job| {
        job.temporaries.iter().map(|path| (directory_of(path).to_owned(), job.device_of(path)))
    });
    let filesystems = match way {
        SyncMethod::Filesystem => Some(Filesystems::of(&touched.collect(), directories)?),
        SyncMethod::Each => None,
    };
    let (written, of) = (AtomicUsize::new(0), jobs.len());
    let all = pool::each(options.threads, jobs, |_, job| {
        options.may_go_on()?;
        let come = come(job, write_one(job, directories, way))?;
        let written = written.fetch_add(1, Ordering::Relaxed) + 1;
        (options.progress)(Progress { written, of });
        Ok(come)
    })?;
    if let Some(filesystems) = filesystems {
        filesystems.sync()?;
    }
    options.may_go_on()?;
    Ok(all)
}

/// A change that knows its versions, and the new file, where there is one.
type WrittenChange<Change> = (Change, Option<FileStamp>);

fn write_one(
    job: &FileWork,
    directories: &DirectoryTimes,
    way: SyncMethod,
) -> Result<WrittenChange<FileChange>, Error> {
    Ok(match &job.change {
        FileChange::Patch(patch) => {
            let (patch, written) = write_patched(patch, job, directories, way)?;
            (FileChange::Patch(patch), written)
        }
        FileChange::Add(item) => {
            let (item, written) = write_added(item, job, directories, way)?;
            (FileChange::Add(item), written)
        }
        FileChange::Replace(replaced) => {
            let (after, written) = write_added(&replaced.after, job, directories, way)?;
            let before = replaced.before.clone();
            (FileChange::Replace(Box::new(Replacement { before, after })), written)
        }
        change @ FileChange::Remove(_) => (change.clone(), None),
    })
}

fn write_patched(
    patch: &FilePatch,
    job: &FileWork,
    directories: &DirectoryTimes,
    way: SyncMethod,
) -> Result<WrittenChange<FilePatch>, Error> {
    let ([path, ..], [temporary, more @ ..]) = (patch.names.as_slice(), job.temporaries.as_slice())
    else {
        return Ok((patch.clone(), None));
    };
    let directory = directories.directory(path)?;
    let (target, rewritten) = write_of_source(patch, job, (&directory, directories))?;
    let Rewritten { before, after, filled } = rewritten;
    if !patch.before.admits(&before) || !patch.after.admits(&after) {
        return Err(Error::refused(path, "has another content than expected"));
    }
    let written = patch.attributes.give(&target, temporary)?;
    way.finish(&target, temporary)?;
    for name in more {
        let other = directories.directory(name)?;
        let change = directories.changing(name, &other);
        directory.link(temporary, &other, name)?;
        change.made();
    }
    // Another name changes the change time.
    let written = match more {
        [] => FileStamp::of(&written),
        _ => stamp_of(&target, temporary)?,
    };
    let holes = if patch.holes.is_empty() { filled } else { patch.holes.clone() };
    let patch = FilePatch { before, after, holes, ..patch.clone() };
    Ok((patch, Some(written)))
}

/// Reads the old version and writes the new one.
fn write_of_source(
    patch: &FilePatch,
    job: &FileWork,
    (directory, directories): (&HeldDirectory, &DirectoryTimes),
) -> Result<(File, Rewritten), Error> {
    let (path, temporary) = (job.change.path(), job.temporary());
    let source = directory.read(path)?;
    let found = source.metadata().map_err(|error| Error::at("fstat", path, error))?;
    if job.stamps.first() != Some(&FileStamp::of(&found)) {
        return Err(changed(path));
    }
    if writers::is_written(&source) {
        return Err(Error::refused(path, writers::WRITTEN));
    }
    stamp::wait_until_a_change_shows(&found);
    let change = directories.changing(temporary, directory);
    let target = directory.create(temporary)?;
    change.made();
    let rewritten = rewrite::rewrite(&source, &found, &patch.edits, &patch.holes, &target)
        .map_err(|failure| failure.at(path, temporary))?;
    // What has changed since, is seen when the new file is to take its place.
    Ok((target, rewritten))
}

/// What fstat(2) says of a new file.
fn stamp_of(file: &File, path: &Path) -> Result<FileStamp, Error> {
    let found = file.metadata().map_err(|error| Error::at("fstat", path, error))?;
    Ok(FileStamp::of(&found))
}

fn write_added(
    item: &Item,
    job: &FileWork,
    directories: &DirectoryTimes,
    way: SyncMethod,
) -> Result<WrittenChange<Item>, Error> {
    let [temporary] = job.temporaries.as_slice() else { return Ok((item.clone(), None)) };
    let directory = directories.directory(temporary)?;
    let change = directories.changing(temporary, &directory);
    let (new, item) = match &item.thing {
        ItemKind::Directory { mode } => {
            let new = directory.make_directory(temporary)?;
            change.made();
            give(item, *mode, &new, temporary)?;
            (new, item.clone())
        }
        ItemKind::Link { target } => {
            let new = directory.make_link(temporary, target)?;
            change.made();
            if let Some(attributes) = &item.attributes {
                attributes.give_to_link(&new, temporary)?;
            }
            (new, item.clone())
        }
        ItemKind::File { seen: Some(seen), .. } => {
            let new = content::whole_file(&job.content, seen, &directory, temporary)?;
            change.made();
            way.finish(&new, temporary)?;
            (new, item.clone())
        }
        ItemKind::File { version, mode, .. } => {
            let new = directory.create(temporary)?;
            change.made();
            let read = content::write(&job.content, &new, temporary)?;
            give(item, *mode, &new, temporary)?;
            way.finish(&new, temporary)?;
            if !version.admits(&read) {
                return Err(Error::refused(&item.path, "its kept copy is damaged"));
            }
            let mut item = item.clone();
            if let ItemKind::File { version, .. } = &mut item.thing {
                *version = read;
            }
            (new, item)
        }
    };
    Ok((item, Some(stamp_of(&new, temporary)?)))
}

/// Gives a new file or directory the attributes of what it is to be, or else the permissions.
fn give(item: &Item, mode: u32, new: &File, temporary: &Path) -> Result<(), Error> {
    match &item.attributes {
        Some(attributes) => attributes.give(new, temporary).map(drop),
        None => new
            .set_permissions(Permissions::from_mode(mode))
            .map_err(|error| Error::at("fchmod", temporary, error)),
    }
}
