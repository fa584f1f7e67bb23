//! Who may read a file of a tree: everyone who may enter the modulepath, or not.
//!
//! A cache is read whole by whoever may enter the modulepath, so what it holds is disclosed to
//! all of them. `cachebuild` looks at the permissions of "others" only (`isFileAccessLimited`),
//! and not at all below a modulepath that is not for everyone. Here, each file must be readable
//! by owner, group and others, without an ACL that says otherwise, and so must be each folder on
//! the way, behind links, too. What a security module (SELinux, AppArmor) denies is not seen.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, getxattr};
use rustix::io::Errno;

use crate::tree::{Entry, Stamp};

const POSIX_ACL: &str = "system.posix_acl_access";
const NFS4_ACL: &str = "system.nfs4_acl";

/// What is known of one modulepath's files.
pub(super) struct Readers<'a> {
    root: &'a Path,
    /// The modulepath's real place: whoever reads the cache came through all folders above it.
    real: PathBuf,
    folders: HashMap<PathBuf, bool>,
}

/// Why a file or folder is not for everyone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// The file itself.
    File,
    /// A folder of the tree, from the modulepath on.
    Folder(PathBuf),
}

impl<'a> Readers<'a> {
    pub(super) fn of(root: &'a Path) -> Readers<'a> {
        let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Readers { root, real, folders: HashMap::new() }
    }

    /// The modulepath.
    pub(super) fn root(&self) -> &'a Path {
        self.root
    }

    /// What keeps somebody who may enter the modulepath from reading `name`; the outermost
    /// folder that does, or the file. What a walk knows of it already is `known`.
    pub(super) fn limit(&mut self, name: &Path, known: Option<&Entry>) -> Option<Limit> {
        let mut folders: Vec<_> = name.ancestors().skip(1).collect();
        folders.reverse();
        for folder in folders.into_iter().filter(|folder| !folder.as_os_str().is_empty()) {
            if !self.is_open_folder(folder) {
                return Some(Limit::Folder(folder.to_owned()));
            }
        }
        let path = self.root.join(name);
        let is_open = match known {
            Some(Entry { is_link: false, stamp: Some(stamp), .. }) => is_for_all(stamp, &path),
            _ => self.is_open(&path),
        };
        (!is_open).then_some(Limit::File)
    }

    /// A folder of the tree; remembered.
    fn is_open_folder(&mut self, folder: &Path) -> bool {
        if let Some(open) = self.folders.get(folder) {
            return *open;
        }
        let open = self.is_open(&self.root.join(folder));
        self.folders.insert(folder.to_owned(), open);
        open
    }

    /// Whether everyone may read it. Of a link: what it leads to, and the way there.
    fn is_open(&mut self, path: &Path) -> bool {
        let Ok(own) = rustix::fs::lstat(path) else { return false };
        if FileType::from_raw_mode(own.st_mode) != FileType::Symlink {
            return is_for_all(&Stamp::of(&own), path);
        }
        let (Ok(target), Ok(stat)) = (path.canonicalize(), rustix::fs::stat(path)) else {
            return false;
        };
        is_for_all(&Stamp::of(&stat), &target) && self.way_is_open(&target)
    }

    /// Whether everyone may pass through the folders above a link's target. A link of several
    /// steps may pass through more; the last step's are looked at.
    fn way_is_open(&mut self, target: &Path) -> bool {
        for folder in target.ancestors().skip(1) {
            if self.real.starts_with(folder) {
                return true;
            }
            let known = self.folders.get(folder).copied();
            let open = known.unwrap_or_else(|| may_be_entered(folder));
            self.folders.insert(folder.to_owned(), open);
            if !open {
                return false;
            }
        }
        true
    }
}

/// Owner, group and others alike: with mode 0604 the group may not.
fn is_for_all(stamp: &Stamp, path: &Path) -> bool {
    let is_folder = FileType::from_raw_mode(stamp.mode) == FileType::Directory;
    stamp.everyone_may_read() && !has_denying_acl(path, if is_folder { 5 } else { 4 })
}

fn may_be_entered(folder: &Path) -> bool {
    let Ok(stat) = rustix::fs::stat(folder) else { return false };
    stat.st_mode & 0o111 == 0o111 && !has_denying_acl(folder, 1)
}

/// Whether an ACL keeps somebody from all of `wanted` (4 read, 1 enter).
fn has_denying_acl(path: &Path, wanted: u8) -> bool {
    let mut value = [0; 4096];
    match getxattr(path, POSIX_ACL, &mut value) {
        Ok(length) => denies(&value[..length], wanted).unwrap_or(true),
        Err(Errno::NODATA) => false,
        Err(Errno::NOTSUP) => match getxattr(path, NFS4_ACL, &mut value) {
            Ok(length) => !nfs4_allows(&value[..length], wanted).unwrap_or(false),
            Err(Errno::NODATA | Errno::NOTSUP) => false,
            Err(_) => true,
        },
        // Too large to be looked at, or not told.
        Err(_) => true,
    }
}

/// Whether an entry of a POSIX ACL withholds what is wanted; none if it is not understood.
/// Its form: linux/posix_acl_xattr.h, a version and then (tag, permissions, id) in 2, 2 and 4
/// bytes.
fn denies(acl: &[u8], wanted: u8) -> Option<bool> {
    const GROUP_CLASS: [u16; 3] = [0x02, 0x04, 0x08]; // ACL_USER, ACL_GROUP_OBJ, ACL_GROUP
    const MASK: u16 = 0x10;
    let (version, entries) = acl.split_first_chunk()?;
    if u32::from_le_bytes(*version) != 2 || entries.len() % 8 != 0 {
        return None;
    }
    let entries: Vec<(u16, u16)> = entries
        .chunks_exact(8)
        .map(|entry| {
            let number = |at| u16::from_le_bytes([entry[at], entry[at + 1]]);
            (number(0), number(2))
        })
        .collect();
    let mask = entries.iter().find(|(tag, _)| *tag == MASK).map_or(7, |(_, may)| *may);
    let wanted = u16::from(wanted);
    Some(entries.iter().any(|(tag, may)| {
        let may = if GROUP_CLASS.contains(tag) { may & mask } else { *may };
        may & wanted != wanted
    }))
}

/// Whether an NFSv4 ACL allows everyone what is wanted and denies it to nobody; none if it is not
/// understood. Its form: XDR (RFC 7530, 6.2), a number of entries and then type, flags, mask and
/// whom, text with its length before it and padded to four bytes.
fn nfs4_allows(acl: &[u8], wanted: u8) -> Option<bool> {
    const ALLOW: u32 = 0;
    const DENY: u32 = 1;
    let (read, execute) = (1, 0x20);
    let wanted = if wanted & 4 != 0 { read } else { 0 } | if wanted & 1 != 0 { execute } else { 0 };
    let number = |at: usize| {
        let bytes = acl.get(at..at.checked_add(4)?)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let (mut at, mut allows) = (4, false);
    for _ in 0..number(0)? {
        let (kind, mask, length) = (number(at)?, number(at + 8)?, number(at + 12)? as usize);
        let who = acl.get(at + 16..(at + 16).checked_add(length)?)?;
        match kind {
            DENY if mask & wanted != 0 => return Some(false),
            ALLOW => allows |= who == b"EVERYONE@" && mask & wanted == wanted,
            _ => {}
        }
        at += 16 + length.next_multiple_of(4);
    }
    Some(allows)
}

/// A name of a cache as a path.
pub(super) fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}
