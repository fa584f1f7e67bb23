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

use rustix::fs::FileType;

use crate::tree::acl::{self, ENTER, READ};
use crate::tree::{Entry, Stamp};

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
    stamp.everyone_may_read() && !acl::denies(path, if is_folder { READ | ENTER } else { READ })
}

fn may_be_entered(folder: &Path) -> bool {
    let Ok(stat) = rustix::fs::stat(folder) else { return false };
    stat.st_mode & 0o111 == 0o111 && !acl::denies(folder, ENTER)
}

/// A name of a cache as a path.
pub(super) fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}
