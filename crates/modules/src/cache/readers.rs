//! Who may read a file of a tree: everyone who may enter the modulepath, or not.
//!
//! A cache is read whole by whoever may enter the modulepath, so what it holds is disclosed to all
//! of them. `cachebuild` looks at the permissions of "others" only (`isFileAccessLimited`), and not
//! at all below a modulepath that is not for everyone. Here, each file must be one that everyone
//! may read ([`crate::tree::rights`]), and so must be each directory on the way, behind links, too.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::tree::rights::{Everyone, way_is_open};
use crate::tree::{ChangeStamp, TreeEntry};

/// What is known of one modulepath's files.
pub(super) struct FileReaders<'a> {
    root: &'a Path,
    /// The modulepath's real place: whoever reads the cache came through all directories above it.
    real: PathBuf,
    directories: HashMap<PathBuf, bool>,
    everyone: Everyone,
}

/// Why a file or directory is not for everyone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// The file itself.
    File,
    /// A directory of the tree, from the modulepath on.
    Directory(PathBuf),
}

impl<'a> FileReaders<'a> {
    pub(super) fn of(root: &'a Path) -> FileReaders<'a> {
        let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        FileReaders { root, real, directories: HashMap::new(), everyone: Everyone::default() }
    }

    /// The modulepath.
    pub(super) fn root(&self) -> &'a Path {
        self.root
    }

    /// What keeps somebody who may enter the modulepath from reading `name`; the outermost
    /// directory that does, or the file. What a walk knows of it already is `known`.
    pub(super) fn limit(&mut self, name: &Path, known: Option<&TreeEntry>) -> Option<Limit> {
        let mut directories: Vec<_> = name.ancestors().skip(1).collect();
        directories.reverse();
        for directory in
            directories.into_iter().filter(|directory| !directory.as_os_str().is_empty())
        {
            if !self.is_open_directory(directory) {
                return Some(Limit::Directory(directory.to_owned()));
            }
        }
        let path = self.root.join(name);
        let is_open = match known {
            Some(TreeEntry { is_link: false, stamp: Some(stamp), .. }) => {
                self.everyone.may_read(stamp, &path)
            }
            _ => self.is_open(&path),
        };
        (!is_open).then_some(Limit::File)
    }

    /// A directory of the tree; remembered.
    fn is_open_directory(&mut self, directory: &Path) -> bool {
        if let Some(open) = self.directories.get(directory) {
            return *open;
        }
        let open = self.is_open(&self.root.join(directory));
        self.directories.insert(directory.to_owned(), open);
        open
    }

    /// Whether everyone may read it. Of a link: what it leads to, and the way there.
    fn is_open(&mut self, path: &Path) -> bool {
        let Ok(own) = rustix::fs::lstat(path) else { return false };
        if FileType::from_raw_mode(own.st_mode) != FileType::Symlink {
            return self.everyone.may_read(&ChangeStamp::of(&own), path);
        }
        let (Ok(target), Ok(stat)) = (path.canonicalize(), rustix::fs::stat(path)) else {
            return false;
        };
        self.everyone.may_read(&ChangeStamp::of(&stat), &target) && self.link_is_open(path)
    }

    /// Whether everyone may pass through the directories that a link leads through. Whoever reads
    /// the cache came through those above the modulepath.
    fn link_is_open(&mut self, link: &Path) -> bool {
        let (Some(directory), Some(name)) = (link.parent(), link.file_name()) else { return false };
        let Ok(directory) = directory.canonicalize() else { return false };
        let FileReaders { real, directories, everyone, .. } = self;
        way_is_open(&directory, Path::new(name), |directory| {
            let known = directories.get(directory).copied();
            real.starts_with(directory)
                || known.unwrap_or_else(|| {
                    let is_open = everyone.may_enter(directory);
                    directories.insert(directory.to_owned(), is_open);
                    is_open
                })
        })
    }
}

/// A name of a cache as a path.
pub(super) fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}
