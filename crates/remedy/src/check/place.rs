//! Checks the directories that a plan changes: writable, and with room for the new files.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use recording::ByteUnits;
use rustix::fs::{Access, StatVfsMountFlags};

use super::{CheckedPlan, patch};
use crate::change::{FileChange, FilePatch, ItemKind, Turn};
use crate::path_map::PathMap;
use crate::work::{FileWork, LARGE, directory_of, there_above};
use crate::{CheckedFiles, Error, pool};

/// Left free beside what is known to be needed: directories grow, too, and so does the journal.
const RESERVE: u64 = 64 << 10;

/// What an edit in a hole takes at most: a block of the filesystem.
const BLOCK: u64 = 64 << 10;

/// Of a plan. What it removes is kept in the state directory.
pub(super) fn allows(
    checked: &mut CheckedPlan<'_>,
    known: &CheckedFiles,
    state: &Path,
    threads: usize,
) {
    allows_names(checked, known, threads);
    removed_directories_will_be_empty(checked);
    has_room(checked, Some(state));
}

/// Of what takes a plan back. It keeps nothing, and directories that are not empty stay.
pub(super) fn allows_back(checked: &mut CheckedPlan<'_>, threads: usize) {
    allows_names(checked, &CheckedFiles::default(), threads);
    has_room(checked, None);
}

fn allows_names(checked: &mut CheckedPlan<'_>, known: &CheckedFiles, threads: usize) {
    let mut devices: PathMap<u64> = PathMap::default();
    let mut answers = answers(checked, known, threads);
    checked.sort_out(|job| {
        for directory in directories(job) {
            if devices.contains(directory) {
                continue;
            }
            // What another job was told already, is asked again for this one.
            let ask = || is_writable(known, directory, &Mutex::default());
            let device = match known.directory(directory) {
                Some(device) => device,
                None => answers.remove(directory).unwrap_or_else(ask)?,
            };
            devices.insert(directory, device);
        }
        Ok(())
    });
    for (_, job) in &mut checked.jobs {
        job.device = devices.get(directory_of(job.change.path())).copied();
    }
    checked.devices = devices;
}

/// Asks of each directory once whether names can be made in it, on several threads.
fn answers(
    checked: &CheckedPlan<'_>,
    known: &CheckedFiles,
    threads: usize,
) -> PathMap<Result<u64, Error>> {
    let all = checked.jobs.iter().flat_map(|(_, job)| directories(job));
    let asked = all.filter(|directory| known.directory(directory).is_none());
    let asked: PathMap<()> = asked.map(|directory| (directory.to_owned(), ())).collect();
    let asked: Vec<&Path> = asked.iter().map(|(directory, ())| directory).collect();
    let mounts = Mutex::default();
    let ask = |_, directory: &&Path| {
        Ok::<_, Infallible>((directory.to_path_buf(), is_writable(known, directory, &mounts)))
    };
    let Ok(answers) = pool::each(threads, &asked, ask);
    for (directory, answer) in &answers {
        answer.iter().for_each(|device| known.keep_directory(directory, *device));
    }
    answers.into_iter().filter(|(_, answer)| answer.is_err()).collect()
}

/// The directories in which a job makes or removes names.
fn directories<'a>(job: &'a FileWork) -> Vec<&'a Path> {
    match &job.change {
        FileChange::Patch(patch) => patch.names.iter().map(|name| directory_of(name)).collect(),
        FileChange::Add(item) => vec![there_above(&item.path)],
        FileChange::Remove(_) | FileChange::Replace(_) => vec![directory_of(job.change.path())],
    }
}

/// Whether names can be made in a directory, and come to be on the disk; its device. Each mount is asked about once.
fn is_writable(
    known: &CheckedFiles,
    directory: &Path,
    mounts: &Mutex<BTreeSet<u64>>,
) -> Result<u64, Error> {
    let held = known.held().open(directory)?;
    let found = patch::forbids_changes_in(&held, directory)?;
    let mount = found.as_ref().and_then(patch::mount_of);
    let mounts = || mounts.lock().unwrap_or_else(PoisonError::into_inner);
    if !mount.is_some_and(|mount| mounts().contains(&mount)) {
        is_on_writable_mount(directory)?;
        mounts().extend(mount);
    }
    let change = Access::WRITE_OK | Access::EXEC_OK;
    if let Err(error) = held.access(change | Access::READ_OK) {
        let operation = match held.access(change) {
            Err(_) => "write into the directory",
            // fsync(2) takes a descriptor that reads.
            Ok(()) => "read the directory, to wait until a change in it is on the disk",
        };
        return Err(Error::at(operation, directory, error));
    }
    match found {
        Some(found) => Ok(rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor)),
        None => device_of(directory),
    }
}

/// Whether a file's name can be removed.
pub(super) fn can_be_removed(path: &Path) -> Result<(), Error> {
    is_writable(&CheckedFiles::default(), directory_of(path), &Mutex::default())?;
    patch::forbids(path)
}

fn device_of(directory: &Path) -> Result<u64, Error> {
    let found = fs::metadata(directory).map_err(|error| Error::at("stat", directory, error))?;
    Ok(found.dev())
}

fn is_on_writable_mount(directory: &Path) -> Result<(), Error> {
    let mount =
        rustix::fs::statvfs(directory).map_err(|error| Error::at("statvfs", directory, error))?;
    if mount.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(Error::refused(directory, "is on a filesystem that is mounted read-only"));
    }
    match kernel_made(directory) {
        Some(kind) => {
            let reason = format!("is on {kind}: the kernel makes the files there, and nobody else");
            Err(Error::refused(directory, reason))
        }
        None => Ok(()),
    }
}

/// Filesystems in which no user makes files, though their permissions do not say so, by what
/// statfs(2) tells (linux/magic.h).
const KERNEL_MADE: [(u64, &str); 10] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x1cd1, "devpts"),
    (0x0187, "autofs"),
    (0xcafe_4a11, "bpf"),
];

/// The name of the filesystem, if it is one of those.
fn kernel_made(directory: &Path) -> Option<&'static str> {
    let found = rustix::fs::statfs(directory).ok()?.f_type as u64;
    KERNEL_MADE.iter().find(|(magic, _)| *magic == found).map(|(_, name)| *name)
}

fn removed_directories_will_be_empty(checked: &mut CheckedPlan<'_>) {
    let is_removal =
        |job: &&FileWork| matches!(job.change.turn(), Turn::Remove | Turn::RemoveDirectories);
    let jobs = checked.jobs.iter().map(|(_, job)| job);
    let removed: BTreeSet<PathBuf> =
        jobs.filter(is_removal).map(|job| job.change.path().to_owned()).collect();
    checked.sort_out(|job| {
        if job.change.turn() != Turn::RemoveDirectories {
            return Ok(());
        }
        let directory = job.change.path();
        let failed = |error| Error::at("list", directory, error);
        for entry in fs::read_dir(directory).map_err(failed)? {
            if !removed.contains(&entry.map_err(failed)?.path()) {
                return Err(Error::refused(directory, "is not empty"));
            }
        }
        Ok(())
    });
}

/// What a job needs, in bytes, with a directory on each filesystem where it needs that.
fn needs<'a>(job: &'a FileWork, state: Option<&'a Path>) -> Vec<(&'a Path, u64)> {
    let written = match &job.change {
        FileChange::Patch(patch) => {
            Some((directory_of(job.change.path()), of_patched(patch, job.taken)))
        }
        FileChange::Add(item) => Some((there_above(&item.path), size(&item.thing))),
        FileChange::Replace(replaced) => {
            Some((directory_of(job.change.path()), size(&replaced.after.thing)))
        }
        FileChange::Remove(_) => None,
    };
    let kept = job.change.removed().zip(state).map(|(item, state)| {
        let above_state = if state.is_dir() { state } else { there_above(state) };
        (above_state, kept_size(&item.thing))
    });
    written.into_iter().chain(kept).collect()
}

/// The new version has the holes of the old one.
fn of_patched(patch: &FilePatch, taken: Option<u64>) -> u64 {
    let path = patch.names.first().map_or(Path::new("/"), PathBuf::as_path);
    let written: u64 = patch.edits.iter().map(|edit| BLOCK + edit.new.len() as u64).sum();
    let of_now = || fs::symlink_metadata(path).ok().map(|found| 512 * found.blocks());
    let taken = taken.or_else(of_now).unwrap_or(u64::MAX);
    taken.saturating_add(written).min(patch.after.size.0)
}

/// A large file is not written anew: it gets another name.
fn size(thing: &ItemKind) -> u64 {
    match thing {
        ItemKind::File { version, seen: None, .. } => version.size.0,
        _ => 0,
    }
}

/// What keeping it takes.
fn kept_size(thing: &ItemKind) -> u64 {
    Some(size(thing)).filter(|size| *size < LARGE.0).unwrap_or(0)
}

/// A filesystem that something is written to.
struct SpaceNeeded {
    directory: PathBuf,
    needed: u64,
}

fn has_room(checked: &mut CheckedPlan<'_>, state: Option<&Path>) {
    // What takes back is kept from it by nothing but what it surely needs.
    let reserve = if state.is_some() { RESERVE } else { 0 };
    let mut devices = std::mem::take(&mut checked.devices);
    let mut filesystems: BTreeMap<u64, SpaceNeeded> = BTreeMap::new();
    checked.sort_out(|job| {
        for (directory, bytes) in needs(job, state) {
            let device = match devices.get(directory) {
                Some(device) => *device,
                None => device_of(directory)?,
            };
            devices.insert(directory, device);
            let room = || SpaceNeeded { directory: directory.to_owned(), needed: reserve };
            let room = filesystems.entry(device).or_insert_with(room);
            room.needed = room.needed.saturating_add(bytes);
        }
        Ok(())
    });
    let full: BTreeSet<u64> = filesystems
        .iter()
        .filter(|(_, space)| is_enough(space).is_err())
        .map(|(device, _)| *device)
        .collect();
    if full.is_empty() {
        return;
    }
    // Where not all have room, none has: which of them to leave out is not ours to say.
    checked.sort_out(|job| {
        let of = |directory| devices.get(directory).filter(|device| full.contains(device));
        needs(job, state)
            .into_iter()
            .filter_map(|(directory, _)| filesystems.get(of(directory)?))
            .try_for_each(is_enough)
    });
}

fn is_enough(SpaceNeeded { directory, needed }: &SpaceNeeded) -> Result<(), Error> {
    let room =
        rustix::fs::statvfs(directory).map_err(|error| Error::at("statvfs", directory, error))?;
    let blocks = if rustix::process::geteuid().is_root() { room.f_bfree } else { room.f_bavail };
    let free = blocks.saturating_mul(room.f_frsize);
    // A filesystem without a size (some FUSE ones) says nothing of its room.
    if room.f_blocks > 0 && free < *needed {
        let (needed, free) = (ByteUnits(*needed), ByteUnits(free));
        return Err(Error::NoRoom { directory: directory.clone(), needed, free });
    }
    Ok(())
}
