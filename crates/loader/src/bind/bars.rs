//! Who may not open a file: root finds what others are refused, and what they load instead.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::FileId;

/// What keeps some users from a file: its own permissions, or those of a folder on the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Bar {
    /// Only this group passes.
    Group(u32),
    /// Only this user passes.
    Owner(u32),
    /// An access control list decides, that of this file.
    List { device: u64, inode: u64 },
}

/// The right to pass a folder.
const PASSED: u32 = 0o1;

/// The right to load a library.
pub(super) const LOADED: u32 = 0o4;

/// The rights to start a program or to load a library.
pub(super) const USED: u32 = 0o5;

/// Which files some users of others may not load.
#[derive(Debug, Default)]
pub(super) struct Closed {
    loaded: HashMap<FileId, BTreeSet<Bar>>,
    used: HashMap<FileId, BTreeSet<Bar>>,
}

impl Closed {
    pub fn of(names: &HashMap<FileId, PathBuf>) -> Closed {
        let mut bars = Bars::default();
        let mut all =
            |enough: u32| names.iter().map(|(id, path)| (*id, bars.of(path, enough))).collect();
        Closed { loaded: all(LOADED), used: all(USED) }
    }

    /// Whether some who may use a file may not load what it needs.
    pub fn is_closed(&self, target: FileId, user: FileId) -> bool {
        let passed = self.used.get(&user);
        self.loaded
            .get(&target)
            .is_some_and(|bars| !bars.iter().all(|bar| passed.is_some_and(|all| all.contains(bar))))
    }
}

/// What keeps users from files, each folder asked once.
#[derive(Debug, Default)]
pub(super) struct Bars {
    folders: HashMap<PathBuf, BTreeSet<Bar>>,
}

impl Bars {
    /// All that keeps some users from a file or folder by this path, where these rights of others
    /// are enough: any of them.
    pub fn of(&mut self, path: &Path, enough: u32) -> BTreeSet<Bar> {
        let mut bars = self.on_the_way(path);
        if fs::symlink_metadata(path).is_ok_and(|seen| seen.is_symlink())
            && let Ok(real) = path.canonicalize()
        {
            bars.extend(self.on_the_way(&real));
        }
        bars.extend(own(path, enough));
        bars
    }

    fn on_the_way(&mut self, path: &Path) -> BTreeSet<Bar> {
        let Some(folder) = path.parent() else { return BTreeSet::new() };
        if let Some(known) = self.folders.get(folder) {
            return known.clone();
        }
        let bars = self.of(folder, PASSED);
        self.folders.insert(folder.to_owned(), bars.clone());
        bars
    }
}

/// The bar that the permissions of one file or folder are.
fn own(path: &Path, enough: u32) -> Option<Bar> {
    let seen = fs::metadata(path).ok()?;
    if recording::has_posix_list(path) {
        return Some(Bar::List { device: seen.dev(), inode: seen.ino() });
    }
    let may = |shift: u32| (seen.mode() >> shift) & enough != 0;
    match (may(0), may(3)) {
        (true, _) => None,
        (false, true) => Some(Bar::Group(seen.gid())),
        (false, false) => Some(Bar::Owner(seen.uid())),
    }
}
