//! Looks whether a change has been made: the files tell, whatever a journal's end says.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::attributes::FileAttributes;
use crate::change::{FileChange, FilePatch, Item, ItemKind, Version};
use crate::stamp::FileStamp;
use crate::{Error, rewrite, stamp};

/// What is found of a change.
#[derive(Debug)]
pub(crate) enum FoundState {
    /// All is as it was before it.
    Before,
    /// It has been made, at least in part: what was found, and the change, its names in an order
    /// that begins with one that is changed.
    After(Box<FileChange>, Vec<FileStamp>),
    /// Something is neither as before nor as after; why.
    Other(PathBuf, String),
}

/// Looks at the files of a change. `ended` says that it was not interrupted.
pub(crate) fn look(change: &FileChange, ended: bool) -> Result<FoundState, Error> {
    match change {
        FileChange::Patch(patch) => look_at_patch(patch, ended),
        FileChange::Add(item) => Ok(match thing_at(item)? {
            FoundItem::Nothing => FoundState::Before,
            FoundItem::It(stamp) => FoundState::After(Box::new(change.clone()), vec![stamp]),
            FoundItem::Other => other(&item.path, "has changed since becalm made it"),
        }),
        FileChange::Remove(item) => Ok(match thing_at(item)? {
            FoundItem::Nothing => FoundState::After(Box::new(change.clone()), Vec::new()),
            FoundItem::It(_) => FoundState::Before,
            FoundItem::Other => other(&item.path, "was removed, and now something else is there"),
        }),
        FileChange::Replace(replaced) => Ok(match thing_at(&replaced.after)? {
            FoundItem::It(stamp) => FoundState::After(Box::new(change.clone()), vec![stamp]),
            FoundItem::Nothing => other(change.path(), "is gone"),
            FoundItem::Other => match thing_at(&replaced.before)? {
                FoundItem::It(_) => FoundState::Before,
                _ => other(change.path(), "has changed since becalm replaced it"),
            },
        }),
    }
}

fn other(path: &Path, reason: &str) -> FoundState {
    FoundState::Other(path.to_owned(), reason.to_owned())
}

/// One name of a patched file.
struct PatchedName<'a> {
    path: &'a PathBuf,
    stamp: FileStamp,
    is_new: bool,
}

fn look_at_patch(patch: &FilePatch, ended: bool) -> Result<FoundState, Error> {
    let mut names = Vec::new();
    // What has several names is read once.
    let mut known: BTreeMap<(u64, u64), Result<bool, &'static str>> = BTreeMap::new();
    for path in &patch.names {
        let Some(found) = there(path)? else { return Ok(other(path, "is gone")) };
        if !found.is_file() {
            return Ok(other(path, "is no longer a regular file"));
        }
        let stamp = FileStamp::of(&found);
        let version = match known.get(&stamp.identity()) {
            Some(known) => *known,
            None => which_version(patch, path, &found, ended)?,
        };
        known.insert(stamp.identity(), version);
        match version {
            Ok(is_new) => names.push(PatchedName { path, stamp, is_new }),
            Err(reason) => return Ok(other(path, reason)),
        }
    }
    if names.iter().all(|name| !name.is_new) {
        return Ok(FoundState::Before);
    }
    names.sort_by_key(|name| !name.is_new);
    let stamps = names.iter().map(|name| name.stamp).collect();
    let names = names.iter().map(|name| name.path.clone()).collect();
    let change = FileChange::Patch(FilePatch { names, ..patch.clone() });
    Ok(FoundState::After(Box::new(change), stamps))
}

/// Whether a file is the new version, or the old one; or why it is neither.
fn which_version(
    patch: &FilePatch,
    path: &Path,
    found: &Metadata,
    ended: bool,
) -> Result<Result<bool, &'static str>, Error> {
    const CHANGED: &str = "has changed since becalm patched it";
    if ![patch.before.size.0, patch.after.size.0].contains(&found.size()) {
        return Ok(Err(CHANGED));
    }
    let file = stamp::open(path).map_err(|error| Error::at("open", path, error))?;
    let read = rewrite::version_of(&file).map_err(|error| Error::at("read", path, error))?;
    let is = |version: &Version| version.digest.is_some() && version.admits(&read);
    if is(&patch.before) {
        return Ok(Ok(false));
    }
    if !is(&patch.after) {
        return Ok(Err(CHANGED));
    }
    let attributes = FileAttributes::of(&file, found)
        .map_err(|error| Error::at("read the extended attributes", path, error))?;
    if !attributes.same_but_times(&patch.attributes) {
        return Ok(Err("has other permissions, owners or attributes since becalm patched it"));
    }
    // After an interruption, what is left of the temporaries are names of it, too.
    if ended && found.nlink() > patch.names.len() as u64 {
        return Ok(Err("has a new name (hard link) since becalm patched it"));
    }
    Ok(Ok(true))
}

/// What is where an item is added or removed.
enum FoundItem {
    Nothing,
    It(FileStamp),
    Other,
}

fn thing_at(item: &Item) -> Result<FoundItem, Error> {
    let path = &item.path;
    let Some(found) = there(path)? else { return Ok(FoundItem::Nothing) };
    let same = match &item.thing {
        ItemKind::Link { target } => {
            found.is_symlink() && fs::read_link(path).is_ok_and(|to| to == *target)
        }
        ItemKind::Directory { mode } => found.is_dir() && found.mode() & 0o7777 == *mode,
        ItemKind::File { mode, .. } if !found.is_file() || found.mode() & 0o7777 != *mode => false,
        ItemKind::File { seen: Some(seen), .. } => seen.is_still(&found),
        ItemKind::File { version, renewed, .. } => {
            is_version(path, &found, std::iter::once(version).chain(renewed))?
        }
    };
    Ok(if same { FoundItem::It(FileStamp::of(&found)) } else { FoundItem::Other })
}

/// Whether it is one of these.
fn is_version<'a>(
    path: &Path,
    found: &Metadata,
    versions: impl Iterator<Item = &'a Version>,
) -> Result<bool, Error> {
    let of_its_size =
        |version: &&Version| found.size() == version.size.0 && version.digest.is_some();
    let mut versions = versions.filter(of_its_size).peekable();
    if versions.peek().is_none() {
        return Ok(false);
    }
    let file = stamp::open(path).map_err(|error| Error::at("open", path, error))?;
    let read = rewrite::version_of(&file).map_err(|error| Error::at("read", path, error))?;
    Ok(versions.any(|version| version.admits(&read)))
}

/// What lstat(2) says of a path; none, where nothing is there.
fn there(path: &Path) -> Result<Option<Metadata>, Error> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Error::at("lstat", path, error)),
    }
}
