//! Checks one patch: the file is what the plan saw, all its names are known, and a new file can
//! have all that it has.

use std::fs::{self, File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recording::ByteUnits;
use rustix::fs::{AtFlags, IFlags, Statx, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::resolved_with;
use crate::attributes::{FileAttributes, Who};
use crate::change::{FileChange, FilePatch, Version};
use crate::checked_files::{CheckedFile, FoundFile};
use crate::content::NewContent;
use crate::held::HeldDirectory;
use crate::stamp::{self, FileStamp};
use crate::work::FileWork;
use crate::writers::WRITTEN;
use crate::{CheckedFiles, Edit, Error, Seen, rewrite};

/// What a file may have that forbids to replace it. All but the last forbid changes in a directory,
/// too.
const FORBIDDING: [(StatxAttributes, &str); 4] = [
    (StatxAttributes::IMMUTABLE, "is immutable (chattr +i)"),
    (StatxAttributes::APPEND, "is append-only (chattr +a)"),
    (StatxAttributes::VERITY, "is sealed by fs-verity"),
    (StatxAttributes::MOUNT_ROOT, "is a mount point: something is mounted over it"),
];

pub(super) fn job<'a>(
    (path, also): (&Path, &[PathBuf]),
    seen: &Seen,
    edits: &Arc<[Edit]>,
    who: &Who,
    known: &CheckedFiles,
) -> Result<FileWork<'a>, Error> {
    let refused = |reason: String| Error::refused(path, reason);
    if edits.is_empty() {
        return Err(refused("has no edits in the plan".into()));
    }
    let size = rewrite::size_after(seen.size, edits).map_err(refused)?;
    let found = match known.file(path, also, seen) {
        Some(found) => found,
        None => {
            let found = look((path, also), seen, edits, who, known)?;
            known.keep_file(path, also, seen, &found);
            found
        }
    };
    let version = |size: ByteUnits, digest| Version { size, digest };
    let patch = FilePatch {
        names: found.names,
        before: version(seen.size, seen.digest),
        after: version(size, None),
        edits: Arc::clone(edits),
        attributes: found.attributes,
        holes: Vec::new(),
    };
    let mut work = FileWork::new(FileChange::Patch(patch), found.stamps, NewContent::Nowhere);
    work.taken = Some(found.taken);
    Ok(work)
}

/// The file is what the plan saw, has no other names, and a new one can have all that it has. Of the first
/// name, the file that a link leads to; the others are names of that.
fn look(
    (path, also): (&Path, &[PathBuf]),
    seen: &Seen,
    edits: &[Edit],
    who: &Who,
    known: &CheckedFiles,
) -> Result<CheckedFile, Error> {
    let real = resolved_with(path, known.held())?;
    let FileAtName { path: real, found, mount, unread } = match known.found(path) {
        // Whoever planned has read it, and it may still be at its name.
        Some(found) => match at_name(&real, found)? {
            Some(there) => there,
            None => opened(path, real)?,
        },
        None => opened(path, real)?,
    };
    is_what_was_seen(path, &found, seen)?;
    if let Some(reason) = found.attributes.cannot_be_kept(who) {
        return Err(Error::refused(path, reason));
    }
    if found.is_written {
        return Err(Error::refused(path, WRITTEN));
    }
    let also = also.iter().map(|name| resolved_with(name, known.held()));
    let names = [Ok(real)].into_iter().chain(also).collect::<Result<Vec<_>, _>>()?;
    let stamps = same_file(&names, &found, mount)?;
    if let Some(file) = unread {
        rewrite::fits(&file, edits)
            .map_err(|error| Error::at("read", path, error))?
            .map_err(|reason| Error::refused(path, reason))?;
    }
    Ok(CheckedFile { names, attributes: found.attributes, stamps, taken: found.taken })
}

/// A file at its first name.
struct FileAtName {
    path: PathBuf,
    found: FoundFile,
    /// The mount that it is on, where the kernel tells.
    mount: Option<u64>,
    /// It itself, where it has not been read yet.
    unread: Option<File>,
}

/// A file that was found, if it is still at a path, by what does not forbid to change it.
fn at_name(path: &Path, found: FoundFile) -> Result<Option<FileAtName>, Error> {
    let there = free_of(&FORBIDDING, path)?;
    let there = there.filter(|there| FileStamp::of_statx(there) == found.stamp);
    let at = |there: Statx| FileAtName {
        path: path.to_owned(),
        found,
        mount: mount_of(&there),
        unread: None,
    };
    Ok(there.map(at))
}

/// Opens the file that a path leads to.
fn opened(path: &Path, mut real: PathBuf) -> Result<FileAtName, Error> {
    let (file, found) = match regular(&real) {
        Err(Error::Call { error, .. }) if is_of_a_link(&error) => {
            real = path.canonicalize().map_err(|error| Error::at("resolve", path, error))?;
            regular(&real)?
        }
        opened => opened?,
    };
    let found = FoundFile::of(&file, &found)
        .map_err(|error| Error::at("read the extended attributes", &real, error))?;
    let there = free_of(&FORBIDDING, &real)?;
    let mount = there.as_ref().and_then(mount_of);
    Ok(FileAtName { path: real, found, mount, unread: Some(file) })
}

/// The mount that something is on: since Linux 5.8 (statx(2)).
pub(super) fn mount_of(found: &Statx) -> Option<u64> {
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

/// What open(2) says of a symbolic link that it is not to follow.
fn is_of_a_link(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Opens a file that must be a regular one.
pub(super) fn regular(path: &Path) -> Result<(File, Metadata), Error> {
    let file = stamp::open(path).map_err(|error| Error::at("open", path, error))?;
    let found = file.metadata().map_err(|error| Error::at("fstat", path, error))?;
    if found.is_file() {
        Ok((file, found))
    } else {
        Err(Error::refused(path, "is not a regular file"))
    }
}

fn is_what_was_seen(path: &Path, found: &FoundFile, seen: &Seen) -> Result<(), Error> {
    let now = Seen { digest: seen.digest, ..found.stamp.seen() };
    // With a digest, the content itself will be compared, while it is copied.
    let same = if seen.digest.is_some() { now.size == seen.size } else { now == *seen };
    if same { Ok(()) } else { Err(Error::refused(path, "has changed since the plan was made")) }
}

/// What a new file in this one's place must have, if it can have all of it.
pub(super) fn replaceable(
    file: &File,
    found: &Metadata,
    path: &Path,
    who: &Who,
) -> Result<FileAttributes, Error> {
    let attributes = FileAttributes::of(file, found)
        .map_err(|error| Error::at("read the extended attributes", path, error))?;
    forbids(path)?;
    match attributes.cannot_be_kept(who) {
        Some(reason) => Err(Error::refused(path, reason)),
        None => Ok(attributes),
    }
}

/// Refuses what is immutable, append-only, sealed or mounted over.
pub(super) fn forbids(path: &Path) -> Result<(), Error> {
    free_of(&FORBIDDING, path).map(drop)
}

/// Refuses a directory in which nothing can be changed. What was found of it, where the kernel tells.
pub(super) fn forbids_changes_in(
    held: &HeldDirectory,
    directory: &Path,
) -> Result<Option<Statx>, Error> {
    has_none_of(&FORBIDDING[..FORBIDDING.len() - 1], directory, held.statx(ASKED))
}

/// What statx(2) is asked for.
const ASKED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::MNT_ID);

/// What is found at a path, if it has none of what forbids to change it; nothing where nobody tells.
fn free_of(forbidding: &[(StatxAttributes, &str)], path: &Path) -> Result<Option<Statx>, Error> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    has_none_of(forbidding, path, rustix::fs::statx(rustix::fs::CWD, path, flags, ASKED))
}

fn has_none_of(
    forbidding: &[(StatxAttributes, &str)],
    path: &Path,
    found: Result<Statx, Errno>,
) -> Result<Option<Statx>, Error> {
    let found = match found {
        // Before Linux 4.11: the rename itself will tell.
        Err(Errno::NOSYS) => return Ok(None),
        found => found.map_err(|error| Error::at("statx", path, error))?,
    };
    let mut has = found.stx_attributes & found.stx_attributes_mask;
    if !found.stx_attributes_mask.contains(StatxAttributes::IMMUTABLE) {
        has |= flags_of(path);
    }
    match forbidding.iter().find(|(attribute, _)| has.contains(*attribute)) {
        Some((_, reason)) => Err(Error::refused(path, *reason)),
        None => Ok(Some(found)),
    }
}

/// The same by the call of chattr(1), of filesystems that do not tell statx(2). Of what cannot be
/// opened, nothing: the rename itself will tell.
fn flags_of(path: &Path) -> StatxAttributes {
    let flags = stamp::open(path).ok().and_then(|file| rustix::fs::ioctl_getflags(file).ok());
    let flags = flags.unwrap_or(IFlags::empty());
    let known = [
        (IFlags::IMMUTABLE, StatxAttributes::IMMUTABLE),
        (IFlags::APPEND, StatxAttributes::APPEND),
    ];
    let set = known.into_iter().filter(|(flag, _)| flags.contains(*flag));
    set.fold(StatxAttributes::empty(), |all, (_, attribute)| all | attribute)
}

/// What is found at each name; all of them are one file on one mount, and it has no others. (A new file
/// gets no name on another mount of its filesystem: link(2), EXDEV.)
fn same_file(
    names: &[PathBuf],
    found: &FoundFile,
    mount: Option<u64>,
) -> Result<Vec<FileStamp>, Error> {
    let stamp = found.stamp;
    // At the first it was found.
    for name in names.iter().skip(1) {
        let other = fs::symlink_metadata(name).map_err(|error| Error::at("lstat", name, error))?;
        if FileStamp::of(&other) != stamp {
            return Err(Error::refused(name, "is not a name of the same file, as the plan says"));
        }
        let other = free_of(&FORBIDDING, name)?.as_ref().and_then(mount_of);
        if mount.is_some() && other.is_some() && mount != other {
            let first = names.first().map_or(Path::new("/"), PathBuf::as_path);
            let reason = "is the same file through another mount (a bind mount)";
            let reason = format!("{} {reason}: name one of the two only", name.display());
            return Err(Error::refused(first, reason));
        }
    }
    let unknown = found.links.saturating_sub(names.len() as u64);
    if unknown > 0 {
        let reason = format!("has {unknown} other names (hard links) that the plan does not have");
        return Err(Error::refused(names.first().map_or(Path::new("/"), PathBuf::as_path), reason));
    }
    Ok(vec![stamp; names.len()])
}
