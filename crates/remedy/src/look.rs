//! Looks whether a change has been made: the files tell, whatever a journal's end says.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::attributes::FileAttributes;
use crate::change::{FileChange, FilePatch, Item, ItemKind, Version};
use crate::held::HeldDirectory;
use crate::stamp::FileStamp;
use crate::{Error, rewrite};

/// What is found of a change.
#[derive(Debug)]
pub(crate) enum FoundState {
    /// All is as it was before it.
    Before,
    /// It has been made, at least in part: what was found, and the change, its names in an order
    /// that begins with one that is changed.
    After(Box<FileChange>, Vec<FileStamp>),
    /// Something is neither as before nor as after; each path that is not as before, and why.
    Other(Vec<(PathBuf, String)>),
}

/// Looks at the files of a change. `ended` says that it was not interrupted.
pub(crate) fn look(change: &FileChange, ended: bool) -> Result<FoundState, Error> {
    match change {
        FileChange::Patch(patch) => look_at_patch(patch, ended),
        FileChange::Add(item) => Ok(match thing_at(item)? {
            // What was moved away, or is not mounted now, may come back, with it.
            FoundItem::Nothing if ended && is_gone_with_all_around(item) => {
                other(&item.path, GONE_WITH_ALL)
            }
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

/// Of a directory that was added: where it lay is gone, too.
pub(crate) const GONE_WITH_ALL: &str = "is gone, with the directory that it was in";

fn is_gone_with_all_around(item: &Item) -> bool {
    let around = item.path.parent().filter(|_| matches!(item.thing, ItemKind::Directory { .. }));
    around.is_some_and(|around| !around.exists())
}

fn other(path: &Path, reason: &str) -> FoundState {
    FoundState::Other(vec![(path.to_owned(), reason.to_owned())])
}

/// One name of a patched file.
struct PatchedName<'a> {
    path: &'a PathBuf,
    stamp: FileStamp,
    is_new: bool,
}

fn look_at_patch(patch: &FilePatch, ended: bool) -> Result<FoundState, Error> {
    let (mut names, mut others) = (Vec::new(), Vec::new());
    // What has several names is read once.
    let mut known: BTreeMap<(u64, u64), Result<bool, &'static str>> = BTreeMap::new();
    for path in &patch.names {
        let mut is_other = |reason: &str| others.push((path.clone(), reason.to_owned()));
        let Some(found) = there(path)? else {
            is_other("is gone");
            continue;
        };
        if !found.what.is_file() {
            is_other("is no longer a regular file");
            continue;
        }
        let stamp = FileStamp::of(&found.what);
        let version = match known.get(&stamp.identity()) {
            Some(known) => *known,
            None => which_version(patch, path, &found, ended)?,
        };
        known.insert(stamp.identity(), version);
        match version {
            Ok(is_new) => names.push(PatchedName { path, stamp, is_new }),
            Err(reason) => is_other(reason),
        }
    }
    if let Some((first, reason)) = others.first().cloned() {
        // One file is given back as a whole.
        let reason = format!("stays changed, since its other name {} {reason}", first.display());
        let new = names.iter().filter(|name| name.is_new);
        others.extend(new.map(|name| (name.path.clone(), reason.clone())));
        return Ok(FoundState::Other(others));
    }
    if names.iter().all(|name| !name.is_new) {
        let parted = if ended { None } else { parted(patch, &names)? };
        return Ok(parted.unwrap_or(FoundState::Before));
    }
    names.sort_by_key(|name| !name.is_new);
    let stamps = names.iter().map(|name| name.stamp).collect();
    let names = names.iter().map(|name| name.path.clone()).collect();
    let change = FileChange::Patch(FilePatch { names, ..patch.clone() });
    Ok(FoundState::After(Box::new(change), stamps))
}

/// Names of what was one file that have its old bytes, each in a file of its own: two interruptions, of applying
/// and of undoing, each between two renames, leave them so. Then nothing is to be edited, but they are to be
/// one file again.
fn parted(patch: &FilePatch, names: &[PatchedName]) -> Result<Option<FoundState>, Error> {
    let is_apart = |name: &PatchedName| {
        Some(name.stamp.identity()) != names.first().map(|first| first.stamp.identity())
    };
    if !names.iter().any(is_apart) {
        return Ok(None);
    }
    for PatchedName { path, .. } in names {
        let Some(found) = there(path)? else { return Ok(Some(other(path, "is gone"))) };
        let file = found.directory.read(path)?;
        let attributes = FileAttributes::of(&file, &found.what)
            .map_err(|error| Error::at("read the extended attributes", path, error))?;
        if !attributes.same_but_times(&patch.attributes) {
            let reason = "is no longer one file with its other names, and has other permissions";
            return Ok(Some(other(path, reason)));
        }
    }
    let stamps = names.iter().map(|name| name.stamp).collect();
    let patch = FilePatch { after: patch.before, edits: [].into(), ..patch.clone() };
    Ok(Some(FoundState::After(Box::new(FileChange::Patch(patch)), stamps)))
}

/// Whether a file is the new version, or the old one; or why it is neither.
fn which_version(
    patch: &FilePatch,
    path: &Path,
    FoundThing { directory, what: found }: &FoundThing,
    ended: bool,
) -> Result<Result<bool, &'static str>, Error> {
    const CHANGED: &str = "has changed since becalm patched it";
    if ![patch.before.size.0, patch.after.size.0].contains(&found.size()) {
        return Ok(Err(CHANGED));
    }
    let file = directory.read(path)?;
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
    let Some(there) = there(path)? else { return Ok(FoundItem::Nothing) };
    let found = &there.what;
    let same = match &item.thing {
        ItemKind::Link { target } => {
            found.is_symlink() && there.directory.target(path).is_ok_and(|to| to == *target)
        }
        ItemKind::Directory { mode } => found.is_dir() && found.mode() & 0o7777 == *mode,
        ItemKind::File { mode, .. } if !found.is_file() || found.mode() & 0o7777 != *mode => false,
        ItemKind::File { seen: Some(seen), .. } => seen.is_still(found),
        ItemKind::File { version, renewed, .. } => {
            is_version(path, &there, std::iter::once(version).chain(renewed))?
        }
    };
    Ok(if same { FoundItem::It(FileStamp::of(found)) } else { FoundItem::Other })
}

/// Whether it is one of these.
fn is_version<'a>(
    path: &Path,
    FoundThing { directory, what: found }: &FoundThing,
    versions: impl Iterator<Item = &'a Version>,
) -> Result<bool, Error> {
    let of_its_size =
        |version: &&Version| found.size() == version.size.0 && version.digest.is_some();
    let mut versions = versions.filter(of_its_size).peekable();
    if versions.peek().is_none() {
        return Ok(false);
    }
    let file = directory.read(path)?;
    let read = rewrite::version_of(&file).map_err(|error| Error::at("read", path, error))?;
    Ok(versions.any(|version| version.admits(&read)))
}

/// Something that is there.
struct FoundThing {
    /// The directory that it is in.
    directory: HeldDirectory,
    /// What lstat(2) says of it.
    what: Metadata,
}

/// What is at a path; none, where nothing is there. What another's link on the way leads to is not what was
/// changed, whatever bytes it has.
///
/// # Errors
/// Those of [`HeldDirectory::of`], and of looking.
fn there(path: &Path) -> Result<Option<FoundThing>, Error> {
    let is_nothing =
        |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    let directory = match HeldDirectory::of(path) {
        Err(Error::Call { error, .. }) if is_nothing(&error) => return Ok(None),
        directory => directory?,
    };
    match directory.look(path).map_err(io::Error::from) {
        Ok(what) => Ok(Some(FoundThing { directory, what })),
        Err(error) if is_nothing(&error) => Ok(None),
        Err(error) => Err(Error::at("lstat", path, error)),
    }
}
