//! Checks the folders that a plan changes: writable, and with room for the new files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recording::Bytes;
use rustix::fs::{Access, StatVfsMountFlags};

use super::patch;
use crate::Error;
use crate::change::{Change, Thing, Turn};
use crate::work::{Job, folder_of, there_above};

/// Left free beside what is known to be needed: folders grow, too, and so does the journal.
const RESERVE: u64 = 64 << 10;

pub(super) fn allows(jobs: &[Job], state: &Path) -> Result<(), Error> {
    let folders: BTreeSet<&Path> = jobs.iter().flat_map(folders).collect();
    folders.iter().try_for_each(|folder| is_writable(folder))?;
    removed_folders_will_be_empty(jobs)?;
    has_room(&needs(jobs, state))
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

fn removed_folders_will_be_empty(jobs: &[Job]) -> Result<(), Error> {
    let is_removal = |job: &&Job| matches!(job.change.turn(), Turn::Remove | Turn::RemoveFolders);
    let removed: BTreeSet<&Path> =
        jobs.iter().filter(is_removal).map(|job| job.change.path()).collect();
    for job in jobs.iter().filter(|job| job.change.turn() == Turn::RemoveFolders) {
        let folder = job.change.path();
        let failed = |error| Error::at("list", folder, error);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?.path();
            if !removed.contains(entry.as_path()) {
                return Err(Error::refused(folder, "is not empty"));
            }
        }
    }
    Ok(())
}

/// How many bytes are needed on the filesystem of each folder.
fn needs(jobs: &[Job], state: &Path) -> BTreeMap<PathBuf, u64> {
    let mut needs: BTreeMap<PathBuf, u64> = BTreeMap::new();
    let mut need = |folder: &Path, bytes: u64| {
        let sum = needs.entry(folder.to_owned()).or_default();
        *sum = sum.saturating_add(bytes);
    };
    let nearest = if state.is_dir() { state } else { there_above(state) };
    for job in jobs {
        match &job.change {
            Change::Patch(patch) => need(folder_of(job.change.path()), patch.after.size.0),
            Change::Add(item) => need(there_above(&item.path), size(&item.thing)),
            Change::Replace(replaced) => {
                need(folder_of(job.change.path()), size(&replaced.after.thing));
            }
            Change::Remove(_) => {}
        }
        if let Some(item) = job.change.removed() {
            need(nearest, size(&item.thing));
        }
    }
    needs
}

fn size(thing: &Thing) -> u64 {
    if let Thing::File { version, .. } = thing { version.size.0 } else { 0 }
}

fn has_room(needs: &BTreeMap<PathBuf, u64>) -> Result<(), Error> {
    let mut filesystems: BTreeMap<u64, (&Path, u64)> = BTreeMap::new();
    for (folder, bytes) in needs {
        let found = fs::metadata(folder).map_err(|error| Error::at("stat", folder, error))?;
        let (_, sum) = filesystems.entry(found.dev()).or_insert((folder, RESERVE));
        *sum = sum.saturating_add(*bytes);
    }
    for (folder, needed) in filesystems.values() {
        let room =
            rustix::fs::statvfs(*folder).map_err(|error| Error::at("statvfs", folder, error))?;
        let blocks =
            if rustix::process::geteuid().is_root() { room.f_bfree } else { room.f_bavail };
        let free = blocks.saturating_mul(room.f_frsize);
        // A filesystem without a size (some FUSE ones) says nothing of its room.
        if room.f_blocks > 0 && free < *needed {
            let (needed, free) = (Bytes(*needed), Bytes(free));
            return Err(Error::NoRoom { folder: folder.to_path_buf(), needed, free });
        }
    }
    Ok(())
}
