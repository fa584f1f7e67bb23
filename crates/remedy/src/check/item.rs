//! Checks what a plan adds, removes and replaces.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use recording::ByteUnits;

use super::{patch, resolved};
use crate::attributes::{FileAttributes, Who};
use crate::change::{FileChange, Item, ItemKind, Replacement, Version};
use crate::content::NewContent;
use crate::stamp::FileStamp;
use crate::work::FileWork;
use crate::{Digest, Error, Seen};

pub(super) fn create<'a>(path: &Path, mode: u32, content: &'a [u8]) -> Result<FileWork<'a>, Error> {
    Ok(added(free(path)?, new_file(path, mode, content)?, NewContent::Memory(content)))
}

fn new_file(path: &Path, mode: u32, content: &[u8]) -> Result<ItemKind, Error> {
    let size = ByteUnits(content.len() as u64);
    let version = Version { size, digest: Some(Digest::of(content)) };
    Ok(ItemKind::file(version, permissions(path, mode)?))
}

pub(super) fn replace<'a>(
    path: &Path,
    mode: u32,
    content: &'a [u8],
    who: &Who,
) -> Result<FileWork<'a>, Error> {
    replaced(path, new_file(path, mode, content)?, NewContent::Memory(content), who)
}

fn replaced<'a>(
    path: &Path,
    thing: ItemKind,
    content: NewContent<'a>,
    who: &Who,
) -> Result<FileWork<'a>, Error> {
    let (before, stamp) = there(path, who)?;
    if before.thing.is_directory() {
        return Err(Error::refused(path, "is a directory: no file takes its place"));
    }
    let after = Item { path: before.path.clone(), thing, attributes: None };
    let change = FileChange::Replace(Box::new(Replacement { before, after }));
    Ok(FileWork::new(change, vec![stamp], content))
}

/// A file with another content, and all else that the one there has but its times.
pub(super) fn rewrite<'a>(
    path: &Path,
    content: &'a [u8],
    who: &Who,
) -> Result<FileWork<'a>, Error> {
    let mut work = replace(path, 0, content, who)?;
    if let FileChange::Replace(replaced) = &mut work.change {
        let Replacement { before, after } = &mut **replaced;
        match (&before.thing, &mut after.thing) {
            (ItemKind::File { mode: was, .. }, ItemKind::File { mode, .. }) => *mode = *was,
            _ => return Err(Error::refused(path, "is not a regular file")),
        }
        after.attributes = before.attributes.as_ref().map(FileAttributes::of_now);
    }
    Ok(work)
}

/// A file that is written already takes the path.
pub(super) fn take<'a>(
    path: &Path,
    source: &Path,
    is_new: bool,
    who: &Who,
) -> Result<FileWork<'a>, Error> {
    let (real, source) = (resolved(path)?, resolved(source)?);
    if source.parent() != real.parent() || source == real {
        return Err(Error::refused(path, "what is to take its place does not lie beside it"));
    }
    let (_, found) = patch::regular(&source)?;
    if found.nlink() > 1 {
        return Err(Error::refused(&source, "has other names (hard links): it is not renamed"));
    }
    let version = Version { size: ByteUnits(found.size()), digest: None };
    let mut thing = ItemKind::file(version, permissions(path, found.mode() & 0o7777)?);
    if let ItemKind::File { seen, .. } = &mut thing {
        *seen = Some(Seen::from_metadata(&found));
    }
    let content = NewContent::Written(source);
    match fs::symlink_metadata(&real) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(added(real, thing, content)),
        _ if is_new => Err(Error::refused(path, "is there already")),
        _ => replaced(path, thing, content, who),
    }
}

pub(super) fn link<'a>(path: &Path, target: &Path) -> Result<FileWork<'a>, Error> {
    let length = target.as_os_str().len();
    if length == 0 || length >= 4096 || target.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Error::refused(path, "no symbolic link can say what the plan has it say"));
    }
    Ok(added(free(path)?, ItemKind::Link { target: target.to_owned() }, NewContent::Nowhere))
}

/// None, if it is there already.
pub(super) fn directory<'a>(path: &Path, mode: u32) -> Result<Option<FileWork<'a>>, Error> {
    if resolved(path)?.is_dir() {
        return Ok(None);
    }
    let thing = ItemKind::Directory { mode: permissions(path, mode)? };
    Ok(Some(added(free(path)?, thing, NewContent::Nowhere)))
}

fn added(path: std::path::PathBuf, thing: ItemKind, content: NewContent) -> FileWork {
    FileWork::new(FileChange::Add(Item { path, thing, attributes: None }), Vec::new(), content)
}

/// The path, if nothing is there.
fn free(path: &Path) -> Result<std::path::PathBuf, Error> {
    let real = resolved(path)?;
    match fs::symlink_metadata(&real) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(real),
        Err(error) => Err(Error::at("lstat", &real, error)),
        Ok(_) => Err(Error::refused(path, "is there already")),
    }
}

fn permissions(path: &Path, mode: u32) -> Result<u32, Error> {
    if mode & !0o1777 == 0 {
        return Ok(mode);
    }
    Err(Error::refused(path, format!("becalm creates nothing with the mode {mode:o}")))
}

pub(super) fn remove<'a>(path: &Path, who: &Who) -> Result<FileWork<'a>, Error> {
    let (item, stamp) = there(path, who)?;
    Ok(FileWork::new(FileChange::Remove(item), vec![stamp], NewContent::Nowhere))
}

/// Whether what a change finds at its paths lets itself be replaced or removed, and this user can
/// give what is new its owner.
pub(super) fn can_be_changed(job: &FileWork, who: &Who) -> Result<(), Error> {
    let (there, attributes) = match &job.change {
        FileChange::Patch(patch) => (patch.names.as_slice(), Some(&patch.attributes)),
        FileChange::Add(item) => (&[][..], item.attributes.as_ref()),
        FileChange::Remove(_) => (job.change.paths(), None),
        FileChange::Replace(replaced) => (job.change.paths(), replaced.after.attributes.as_ref()),
    };
    there.iter().try_for_each(|path| patch::forbids(path))?;
    match attributes.and_then(|attributes| attributes.cannot_be_given(who)) {
        Some(reason) => Err(Error::refused(job.change.path(), reason)),
        None => Ok(()),
    }
}

/// What is at a path, with all that it takes to put it back.
fn there(path: &Path, who: &Who) -> Result<(Item, FileStamp), Error> {
    let real = resolved(path)?;
    let found = fs::symlink_metadata(&real).map_err(|error| Error::at("lstat", &real, error))?;
    let (thing, attributes) = if found.is_symlink() {
        patch::forbids(&real)?;
        let target = fs::read_link(&real).map_err(|error| Error::at("readlink", &real, error))?;
        let attributes = FileAttributes::without_xattrs(&found);
        if let Some(reason) = attributes.cannot_be_given(who) {
            return Err(Error::refused(path, reason));
        }
        (ItemKind::Link { target }, attributes)
    } else if found.is_dir() {
        let open = fs::File::open(&real).map_err(|error| Error::at("open", &real, error))?;
        let attributes = patch::replaceable(&open, &found, &real, who)?;
        (ItemKind::Directory { mode: found.mode() & 0o7777 }, attributes)
    } else {
        let (file, found) = patch::regular(&real)?;
        if found.nlink() > 1 {
            return Err(Error::refused(
                path,
                "has other names (hard links): it is not removed or replaced",
            ));
        }
        let attributes = patch::replaceable(&file, &found, &real, who)?;
        let version = Version { size: ByteUnits(found.size()), digest: None };
        (ItemKind::file(version, found.mode() & 0o7777), attributes)
    };
    Ok((Item { path: real, thing, attributes: Some(attributes) }, FileStamp::of(&found)))
}
