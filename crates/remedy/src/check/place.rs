//! Checks the folders that a plan changes: writable, and with room for the new files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recording::Bytes;
use rustix::fs::{Access, StatVfsMountFlags};

use super::{CheckedPlan, patch};
use crate::Error;
use crate::change::{Change, Patch, Thing, Turn};
use crate::work::{Job, folder_of, there_above};

/// Left free beside what is known to be needed: folders grow, too, and so does the journal.
const RESERVE: u64 = 64 << 10;

/// What an edit in a hole takes at most: a block of the filesystem.
const BLOCK: u64 = 64 << 10;

pub(super) fn allows(checked: &mut CheckedPlan<'_>, state: &Path) {
    let mut writable: BTreeSet<PathBuf> = BTreeSet::new();
    checked.sort_out(|job| {
        for folder in folders(job) {
            if !writable.contains(folder) {
                is_writable(folder)?;
                writable.insert(folder.to_owned());
            }
        }
        Ok(())
    });
    removed_folders_will_be_empty(checked);
    has_room(checked, state);
}

/// The folders in which a job makes or removes names.
fn folders<'a>(job: &'a Job) -> Vec<&'a Path> {
    match &job.change {
        Change::Patch(patch) => patch.names.iter().map(|name| folder_of(name)).collect(),
        Change::Add(item) => vec![there_above(&item.path)],
        Change::Remove(_) | Change::Replace(_) => vec![folder_of(job.change.path())],
    }
}

fn is_writable(folder: &Path) -> Result<(), Error> {
    let mount = rustix::fs::statvfs(folder).map_err(|error| Error::at("statvfs", folder, error))?;
    if mount.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(Error::refused(folder, "is on a filesystem that is mounted read-only"));
    }
    patch::forbids_changes_in(folder)?;
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| Error::at("write into the folder", folder, error))
}

fn removed_folders_will_be_empty(checked: &mut CheckedPlan<'_>) {
    let is_removal = |job: &&Job| matches!(job.change.turn(), Turn::Remove | Turn::RemoveFolders);
    let jobs = checked.jobs.iter().map(|(_, job)| job);
    let removed: BTreeSet<PathBuf> =
        jobs.filter(is_removal).map(|job| job.change.path().to_owned()).collect();
    checked.sort_out(|job| {
        if job.change.turn() != Turn::RemoveFolders {
            return Ok(());
        }
        let folder = job.change.path();
        let failed = |error| Error::at("list", folder, error);
        for entry in fs::read_dir(folder).map_err(failed)? {
            if !removed.contains(&entry.map_err(failed)?.path()) {
                return Err(Error::refused(folder, "is not empty"));
            }
        }
        Ok(())
    });
}

/// What a job needs, in bytes, with a folder on each filesystem where it needs that.
fn needs<'a>(job: &'a Job, state: &'a Path) -> Vec<(&'a Path, u64)> {
    let written = match &job.change {
        Change::Patch(patch) => Some((folder_of(job.change.path()), of_patched(patch))),
        Change::Add(item) => Some((there_above(&item.path), size(&item.thing))),
        Change::Replace(replaced) => {
            Some((folder_of(job.change.path()), size(&replaced.after.thing)))
        }
        Change::Remove(_) => None,
    };
    let kept = job.change.removed().map(|item| {
        let above_state = if state.is_dir() { state } else { there_above(state) };
        (above_state, size(&item.thing))
    });
    written.into_iter().chain(kept).collect()
}

/// The new version has the holes of the old one.
fn of_patched(patch: &Patch) -> u64 {
    let path = patch.names.first().map_or(Path::new("/"), PathBuf::as_path);
    let written: u64 = patch.edits.iter().map(|edit| BLOCK + edit.new.len() as u64).sum();
    let taken = fs::symlink_metadata(path).map(|found| 512 * found.blocks());
    taken.map_or(u64::MAX, |taken| taken.saturating_add(written)).min(patch.after.size.0)
}

fn size(thing: &Thing) -> u64 {
    if let Thing::File { version, .. } = thing { version.size.0 } else { 0 }
}

/// A filesystem that something is written to.
struct Room {
    folder: PathBuf,
    needed: u64,
}

fn has_room(checked: &mut CheckedPlan<'_>, state: &Path) {
    let mut devices: BTreeMap<PathBuf, u64> = BTreeMap::new();
    let mut filesystems: BTreeMap<u64, Room> = BTreeMap::new();
    checked.sort_out(|job| {
        for (folder, bytes) in needs(job, state) {
            let device = match devices.get(folder) {
                Some(device) => *device,
                None => {
                    fs::metadata(folder).map_err(|error| Error::at("stat", folder, error))?.dev()
                }
            };
            devices.insert(folder.to_owned(), device);
            let room = || Room { folder: folder.to_owned(), needed: RESERVE };
            let room = filesystems.entry(device).or_insert_with(room);
            room.needed = room.needed.saturating_add(bytes);
        }
        Ok(())
    });
    // Where not all have room, none has: which of them to leave out is not ours to say.
    checked.sort_out(|job| {
        let of = |folder| filesystems.get(devices.get(folder)?);
        needs(job, state).into_iter().filter_map(|(folder, _)| of(folder)).try_for_each(is_enough)
    });
}

fn is_enough(Room { folder, needed }: &Room) -> Result<(), Error> {
    let room = rustix::fs::statvfs(folder).map_err(|error| Error::at("statvfs", folder, error))?;
    let blocks = if rustix::process::geteuid().is_root() { room.f_bfree } else { room.f_bavail };
    let free = blocks.saturating_mul(room.f_frsize);
    // A filesystem without a size (some FUSE ones) says nothing of its room.
    if room.f_blocks > 0 && free < *needed {
        let (needed, free) = (Bytes(*needed), Bytes(free));
        return Err(Error::NoRoom { folder: folder.clone(), needed, free });
    }
    Ok(())
}
