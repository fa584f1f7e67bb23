//! Who may not open a file: root finds what others are refused, and what they load instead.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use access::{AclEntry, posix_acl};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use rustix::io::Errno;

use super::collect::ElfFileNames;
use crate::FileId;

/// What keeps some users from a file: its own permissions, or those of a directory on the way to
/// it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AccessBar {
    /// Only this group passes.
    Group(u32),
    /// Only this user passes.
    Owner(u32),
    /// All pass but this group.
    NotGroup(u32),
    /// An access control list decides: for each of its entries, by tag and user or group, whether
    /// those pass.
    List { owner: u32, group: u32, pass: BTreeSet<(u16, u32, bool)> },
    /// Nobody says what the access control list of this file is.
    Unknown { device: u64, inode: u64 },
}

/// The right to pass a directory.
const PASSED: u32 = 0o1;

/// The right to load a library.
pub(super) const LOADED: u32 = 0o4;

/// The rights to start a program or to load a library.
pub(super) const USED: u32 = 0o5;

/// Which files some users of others may not load.
#[derive(Debug, Default)]
pub(super) struct Closed {
    loaded: FxHashMap<FileId, BTreeSet<AccessBar>>,
    used: FxHashMap<FileId, BTreeSet<AccessBar>>,
}

impl Closed {
    /// Of files by these names; what was read of some is known.
    pub fn of(names: &HashMap<FileId, PathBuf>, files: &[ElfFileNames]) -> Closed {
        let bars = Bars::default();
        let read: FxHashMap<FileId, &ElfFileNames> =
            files.iter().map(|file| (file.id, file)).collect();
        let of_each = |(id, path): (&FileId, &PathBuf)| {
            // By the name that it was found by there is no link on the way.
            let known = read.get(id).filter(|file| file.path() == path);
            let known = known.map(|file| Permissions::of_read(file));
            let [loaded, used] = bars.of_each(path, known, [LOADED, USED]);
            ((*id, loaded), (*id, used))
        };
        let (loaded, used) = names.par_iter().map(of_each).unzip();
        Closed { loaded, used }
    }

    /// Whether some who may use a file may not load what it needs.
    pub fn is_closed(&self, target: FileId, user: FileId) -> bool {
        let passed = self.used.get(&user);
        self.loaded
            .get(&target)
            .is_some_and(|bars| !bars.iter().all(|bar| passed.is_some_and(|all| all.contains(bar))))
    }
}

/// What keeps users from files, each directory asked once; by several threads at a time perhaps twice.
#[derive(Debug, Default)]
pub(super) struct Bars {
    directories: RwLock<FxHashMap<OsString, BTreeSet<AccessBar>>>,
}

impl Bars {
    /// All that keeps some users from a file or directory by this path, where these rights of
    /// others are enough: any of them.
    pub fn of(&self, path: &Path, enough: u32) -> BTreeSet<AccessBar> {
        let [bars] = self.of_each(path, None, [enough]);
        bars
    }

    /// The same for several rights, all of which are asked for at once.
    fn of_each<const N: usize>(
        &self,
        path: &Path,
        known: Option<Permissions>,
        enough: [u32; N],
    ) -> [BTreeSet<AccessBar>; N] {
        let mut bars = self.on_the_way(path);
        let Some(seen) = known.or_else(|| self.seen(path, &mut bars)) else {
            return enough.map(|_| bars.clone());
        };
        let list = if seen.may_have_list { posix_acl(path) } else { Ok(None) };
        enough.map(|enough| bars.iter().cloned().chain(own(&seen, &list, enough)).collect())
    }

    /// The permissions of what a path leads to; of a link, what is on the way from there is added.
    fn seen(&self, path: &Path, bars: &mut BTreeSet<AccessBar>) -> Option<Permissions> {
        let seen = fs::symlink_metadata(path).ok()?;
        if !seen.is_symlink() {
            return Some(Permissions::of(&seen));
        }
        if let Ok(real) = path.canonicalize() {
            bars.extend(self.on_the_way(&real));
        }
        fs::metadata(path).ok().as_ref().map(Permissions::of)
    }

    fn on_the_way(&self, path: &Path) -> BTreeSet<AccessBar> {
        let Some(directory) = path.parent() else { return BTreeSet::new() };
        let known = self.directories.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(directory.as_os_str()) {
            return known.clone();
        }
        drop(known);
        let bars = self.of(directory, PASSED);
        let mut known = self.directories.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(directory.into(), bars.clone());
        bars
    }
}

/// What stat(2) says of who may do what.
struct Permissions {
    mode: u32,
    uid: u32,
    gid: u32,
    id: FileId,
    /// Whether it may have an access control list.
    may_have_list: bool,
}

impl Permissions {
    fn of(seen: &Metadata) -> Permissions {
        let id = FileId { device: seen.dev(), inode: seen.ino() };
        let (mode, uid, gid) = (seen.mode(), seen.uid(), seen.gid());
        Permissions { mode, uid, gid, id, may_have_list: true }
    }

    fn of_read(file: &ElfFileNames) -> Permissions {
        let ElfFileNames { mode, uid, gid, id, may_have_list, .. } = *file;
        Permissions { mode, uid, gid, id, may_have_list }
    }
}

/// The bar that the permissions of one file or directory are, by its access control list, if it has
/// one.
fn own(
    seen: &Permissions,
    list: &Result<Option<Vec<AclEntry>>, Errno>,
    enough: u32,
) -> Option<AccessBar> {
    let (owner, group) = (seen.uid, seen.gid);
    match list {
        Ok(None) | Err(Errno::NOTSUP) => {}
        Ok(Some(entries)) => {
            let passes = |rights: u8| u32::from(rights) & enough != 0;
            let pass = entries.iter().map(|entry| (entry.tag, entry.id, passes(entry.rights)));
            let pass = pass.collect::<BTreeSet<_>>();
            let all_pass = pass.iter().all(|(.., passes)| *passes);
            return (!all_pass).then_some(AccessBar::List { owner, group, pass });
        }
        Err(_) => {
            let FileId { device, inode } = seen.id;
            return Some(AccessBar::Unknown { device, inode });
        }
    }
    let may = |shift: u32| (seen.mode >> shift) & enough != 0;
    match (may(0), may(3)) {
        (true, true) => None,
        (true, false) => Some(AccessBar::NotGroup(group)),
        (false, true) => Some(AccessBar::Group(group)),
        (false, false) => Some(AccessBar::Owner(owner)),
    }
}
