//! Files and directories of an image, compared with those that they were made of.
//!
//! Size and time in seconds are what squashfs keeps. Where they are the same, but the file was
//! touched by anything since the image was made (its ctime, which nobody can set, is newer than all
//! that was packed), its content decides, and of a directory the names in it: so `touch -r`,
//! `rsync -a` and archives that keep times hide nothing, and a mere `chmod` or hard link does not
//! make an image stale. A directory that was touched may have been renamed to where it is, with all
//! below it as old as it was: whoever compares it compares all below it as another source
//! ([`SourceAnswer::is_moved`]), each file once, however many directories above it were touched.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use image_format::squash::{NodeKind, SquashAttributes, SquashEntry, SquashNode};
use image_format::tree::seconds;
use rustix::fs::{Access, AtFlags, CWD, OFlags};
use rustix::io::Errno;

use super::bytecode_dirs::{self, only_bytecode_is_new};
use super::fresh::BYTECODE;
use super::healed;
use super::layer::ImageLayer;

/// How many threads ask at a time: on a shared filesystem each question is a round trip.
const ASKERS: usize = 32;
/// Fewer questions than this need no threads.
const FEW: usize = 64;
/// How many changes are named.
const NAMED: usize = 3;
/// Bytes that are compared at a time.
const PIECE: usize = 256 << 10;

/// A file or directory that is asked for, and what was packed of it.
pub(crate) struct SourceCheck {
    pub path: PathBuf,
    pub node: SquashNode,
    pub packed: SquashAttributes,
    pub source: SourceIdentity,
}

impl SourceCheck {
    /// The same, where times say nothing.
    pub fn of_another(&self) -> SourceCheck {
        let SourceCheck { path, node, packed, .. } = self;
        let source = SourceIdentity::Other;
        SourceCheck { path: path.clone(), node: *node, packed: *packed, source }
    }
}

/// Whether what lies at a path now is what was packed there, by its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceIdentity {
    /// It is.
    Same,
    /// Nothing says so. A directory may have been renamed to here with all that is in it.
    Unknown,
    /// It is another one, or lies in another one: a release of before that was moved back, a copy.
    /// Equal times say nothing of it.
    Other,
}

impl SourceIdentity {
    /// Of what lies in a directory.
    pub fn below(self) -> SourceIdentity {
        match self {
            SourceIdentity::Same | SourceIdentity::Unknown => SourceIdentity::Unknown,
            SourceIdentity::Other => SourceIdentity::Other,
        }
    }
}

/// What came of one of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SourceAnswer {
    /// How what is there differs from what was packed.
    pub how: Option<&'static str>,
    /// Size and times said nothing of it: its content decided, or its names.
    pub is_read: bool,
    /// It is a directory that may have been renamed to here: times say nothing of what is below it.
    pub is_moved: bool,
}

/// How many files that an image was made of were compared with it.
#[derive(Clone, Debug)]
pub struct ComparedSources {
    /// The image's file.
    pub image: PathBuf,
    /// How many files.
    pub files: u64,
    /// How many of them had to be read, as times say nothing of them: they were touched since, or lie
    /// below what was.
    pub read: u64,
    /// The command, or the recording, that the order of the image's files comes from.
    pub trace: Option<String>,
    /// The command's working directory; none: it is a recording, or nobody knows.
    pub traced_in: Option<String>,
}

/// What came of all.
#[derive(Default)]
pub(crate) struct SourceComparison {
    /// How many files were compared, without directories and links.
    pub files: u64,
    /// How many of them had to be read.
    pub read: u64,
    /// What has changed, and how.
    pub changed: Vec<(PathBuf, &'static str)>,
}

impl SourceComparison {
    pub fn add(&mut self, checks: &[SourceCheck], answers: &[SourceAnswer]) {
        for (check, answer) in checks.iter().zip(answers) {
            let is_file = check.packed.kind == NodeKind::File;
            self.files += u64::from(is_file);
            self.read += u64::from(is_file && answer.is_read);
            self.changed.extend(answer.how.map(|how| (check.path.clone(), how)));
        }
    }

    /// The first of what has changed, and how much more there is.
    pub fn said(&self) -> String {
        let first = self.changed.iter().take(NAMED);
        let first: Vec<_> = first.map(|(path, how)| format!("{} {how}", path.display())).collect();
        match self.changed.len() - first.len() {
            0 => first.join(", "),
            more => format!("{} and {more} more", first.join(", ")),
        }
    }
}

/// How what is there differs from what was packed, in the order of the checks.
pub(crate) fn differences(layer: &ImageLayer, checks: &[SourceCheck]) -> Vec<SourceAnswer> {
    ask_all(checks, |check| difference(layer, check))
}

/// The answer to each question, many of which are asked at a time.
pub(super) fn ask_all<T: Clone + Default + Send>(
    checks: &[SourceCheck],
    answer: impl Fn(&SourceCheck) -> T + Sync,
) -> Vec<T> {
    if checks.len() < FEW {
        return checks.iter().map(answer).collect();
    }
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(vec![T::default(); checks.len()]));
    std::thread::scope(|scope| {
        for _ in 0..ASKERS {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(check) = checks.get(index)
                {
                    let answer = answer(check);
                    answers.lock().unwrap_or_else(PoisonError::into_inner)[index] = answer;
                }
            });
        }
    });
    sandbox::namespace::until_alone();
    answers.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// How what is there differs from what was packed.
pub(super) fn difference(layer: &ImageLayer, check: &SourceCheck) -> SourceAnswer {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let packed = &check.packed;
    let is_bytecode = packed.kind == NodeKind::Directory
        && check.path.file_name() == Some(OsStr::from_bytes(BYTECODE));
    let how = match fs::symlink_metadata(&check.path) {
        // The image may have been given one that the source has not.
        Err(error) if is_bytecode && error.kind() == NotFound => {
            (!bytecode_dirs::unasked(layer, check.node).is_empty()).then_some("is gone")
        }
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Some("is gone"),
        // Whoever may not look at it may use the image all the same, unless he might before: then
        // the directory above it tells.
        Err(error) if error.kind() == PermissionDenied => None,
        Err(_) => Some("cannot be looked at"),
        Ok(there) if there.is_dir() != (packed.kind == NodeKind::Directory) => {
            Some("is something else")
        }
        Ok(there) if is_closed(check, &there) => Some("may not be used any more"),
        Ok(there) if is_bytecode => {
            let is_same = seconds(there.mtime()) == packed.mtime && !layer.is_touched(&there);
            match is_same || bytecode_dirs::decides_the_same(layer, check).is_ok_and(|same| same) {
                true => None,
                false => Some("has changed"),
            }
        }
        Ok(there) if there.is_dir() && seconds(there.mtime()) != packed.mtime => {
            match only_bytecode_is_new(layer, check) {
                Ok(true) => None,
                _ => Some("has changed"),
            }
        }
        Ok(there) if seconds(there.mtime()) != packed.mtime => Some("has changed"),
        Ok(there) if there.is_file() && there.len() != packed.size => Some("has another size"),
        Ok(there) if check.source == SourceIdentity::Other || layer.is_touched(&there) => {
            let is_same = match packed.kind {
                NodeKind::Directory => has_same_names(layer, check),
                NodeKind::File => match layer.bound(&check.path) {
                    Some(bound) => bound.is_still_in(&check.path),
                    None => has_same_content(layer, check),
                },
                _ => Ok(true),
            };
            let how = match is_same {
                Ok(true) => None,
                Ok(false) => Some("has changed, and keeps its time"),
                Err(error) if error.kind() == PermissionDenied => None,
                Err(_) => Some("cannot be read"),
            };
            let is_moved =
                packed.kind == NodeKind::Directory && check.source == SourceIdentity::Unknown;
            return SourceAnswer { how, is_read: true, is_moved };
        }
        Ok(_) => None,
    };
    SourceAnswer { how, ..SourceAnswer::default() }
}

/// Whether this process may use a file or look into a directory no more, as it might have when that
/// was packed.
fn is_closed(check: &SourceCheck, there: &Metadata) -> bool {
    let packed = &check.packed;
    if (there.mode() & 0o7777, there.uid(), there.gid())
        == (packed.mode.into(), packed.uid, packed.gid)
    {
        return false;
    }
    let needed = match packed.kind {
        NodeKind::Directory => Access::READ_OK | Access::EXEC_OK,
        NodeKind::File => Access::READ_OK,
        _ => return false,
    };
    let now = rustix::fs::accessat(CWD, &check.path, needed, AtFlags::EACCESS);
    now == Err(Errno::ACCESS) && was_open(packed)
}

fn was_open(packed: &SquashAttributes) -> bool {
    let groups = || rustix::process::getgroups().unwrap_or_default();
    let is_own_group = || {
        let group = rustix::process::getegid().as_raw();
        packed.gid == group || groups().iter().any(|group| group.as_raw() == packed.gid)
    };
    let shift = match packed.uid == rustix::process::geteuid().as_raw() {
        true => 6,
        false if is_own_group() => 3,
        false => 0,
    };
    let needed = if packed.kind == NodeKind::Directory { 0o5 } else { 0o4 };
    u32::from(packed.mode) >> shift & needed == needed
}

/// Whether a directory has the same names, of the same kinds, and links with the same targets.
pub(super) fn has_same_names(layer: &ImageLayer, check: &SourceCheck) -> io::Result<bool> {
    let entries = layer.entries(check.node);
    let mut packed: HashMap<&[u8], &SquashEntry> =
        entries.iter().map(|entry| (&entry.name[..], entry)).collect();
    for there in fs::read_dir(&check.path)? {
        let there = there?;
        let name = there.file_name();
        let kind = there.file_type()?;
        let is_same = match packed.remove(name.as_bytes()) {
            None if name.as_bytes() == BYTECODE => bytecode_dirs::decides_nothing(&there.path())?,
            None => std::os::unix::fs::FileTypeExt::is_socket(&kind),
            Some(entry) if healed::is_made(layer, check.node, entry) => {
                bytecode_dirs::decides_nothing(&there.path())?
            }
            Some(entry) => match entry.kind {
                NodeKind::Directory => kind.is_dir(),
                NodeKind::File => kind.is_file(),
                NodeKind::Symlink => {
                    let target = layer.image.target(entry.node).map_err(io::Error::other)?;
                    kind.is_symlink()
                        && fs::read_link(there.path())?.as_os_str() == OsStr::from_bytes(&target)
                }
                _ => !kind.is_dir() && !kind.is_file() && !kind.is_symlink(),
            },
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(packed.iter().all(|(name, entry)| *name == BYTECODE || layer.is_made(entry)))
}

pub(super) fn has_same_content(layer: &ImageLayer, check: &SourceCheck) -> io::Result<bool> {
    let packed = layer.image.open(check.node).map_err(io::Error::other)?;
    let mut source = open_source(&check.path)?;
    let (mut here, mut there) = (vec![0; PIECE], vec![0; PIECE]);
    let mut at = 0;
    while at < packed.size() {
        let length = layer.image.read_at(&packed, at, &mut here).map_err(io::Error::other)?;
        if length == 0 || source.read_exact(&mut there[..length]).is_err() {
            return Ok(false);
        }
        if here[..length] != there[..length] {
            return Ok(false);
        }
        at += length as u64;
    }
    Ok(source.read(&mut there)? == 0)
}

/// Opens what was a file a moment ago: no link that was put in its place is followed, and no pipe waited
/// for.
fn open_source(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}
