//! What the kernel tells of a tree's changes: inotify(7), and of mounts proc_pid_mountinfo(5).

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use proc::FilesystemKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

use crate::index::IndexNames;
use crate::tree::{ModulepathTree, TreeEntryKind};

/// All that changes a directory's names, a file's content, or who may read them.
const CHANGE: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DONT_FOLLOW);

/// Why a tree cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum TreeWatchError {
    /// It is no directory that can be listed.
    #[error("{}: no directory that may be listed", path.display())]
    NotListed {
        /// The modulepath.
        path: PathBuf,
    },
    /// Nobody here is told of all changes.
    #[error(
        "{}: on a filesystem of which others may change something that nobody here is told of \
         (network, overlay); make its index by a timer instead",
        path.display()
    )]
    NotLocal {
        /// A directory or file in it.
        path: PathBuf,
    },
    /// There are more directories and files than this user may watch.
    #[error(
        "{}: {watches} directories and files, more than this user may watch: raise \
         fs.inotify.max_user_watches",
        path.display()
    )]
    TooMany {
        /// The modulepath.
        path: PathBuf,
        /// How many there are.
        watches: usize,
    },
    /// Somebody else watches it, or pretends to.
    #[error("{}: another process watches it already", path.display())]
    Taken {
        /// The modulepath.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("{}: cannot {operation}: {error}", path.display())]
    System {
        /// The modulepath, or a part of it.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// Why.
        error: io::Error,
    },
}

/// The changes of one tree.
pub(super) struct TreeChanges {
    inotify: OwnedFd,
    mounts: File,
    /// What is watched: names from the modulepath on, itself with an empty one.
    names: HashSet<PathBuf>,
}

impl TreeChanges {
    /// The changes of a tree from now on.
    ///
    /// Files are watched as well as directories: the kernel tells a directory only of what is done to
    /// its files by its own names, and a file may have others. What is behind a link, or may not be
    /// read, is no part of an index, and not watched.
    pub fn of(tree: &ModulepathTree) -> Result<TreeChanges, TreeWatchError> {
        let path = || tree.root.clone();
        if !tree.is_listed() || tree.is_cut {
            return Err(TreeWatchError::NotListed { path: path() });
        }
        let failed = |operation, path: PathBuf| {
            move |error: io::Error| TreeWatchError::System { path, operation, error }
        };
        let mounts = File::open("/proc/self/mountinfo");
        let mounts = mounts.map_err(failed("read /proc/self/mountinfo", path()))?;
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let inotify = inotify.map_err(|why| failed("watch", path())(why.into()))?;
        let mut changes = TreeChanges { inotify, mounts, names: HashSet::new() };
        let mut devices = HashSet::new();
        let watched = tree.entries.iter().filter(|entry| !entry.is_link && is_indexed(&entry.kind));
        for entry in std::iter::once(&tree.top).chain(watched) {
            let at = tree.path(entry);
            if entry.stamp.is_some_and(|stamp| devices.insert(stamp.device)) && !is_local(&at) {
                return Err(TreeWatchError::NotLocal { path: at });
            }
            // A modulepath may be a link; what is in it, is none.
            let flags = match entry.name.as_os_str().is_empty() {
                true => CHANGE.difference(WatchFlags::DONT_FOLLOW),
                false => CHANGE,
            };
            match inotify::add_watch(&changes.inotify, &at, flags) {
                Ok(_) => {
                    changes.names.insert(entry.name.clone());
                }
                // Private, or gone by now: where the index has it, it is found not to be watched.
                Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR) => {}
                Err(Errno::NOSPC) => {
                    let watches = tree.entries.len() + 1;
                    return Err(TreeWatchError::TooMany { path: path(), watches });
                }
                Err(why) => return Err(failed("watch", at)(why.into())),
            }
        }
        Ok(changes)
    }

    /// Whether all that an index relies on is watched.
    pub fn cover(&self, names: &IndexNames<'_>) -> bool {
        let directories = names.directories.iter().map(|directory| &*directory.name);
        let files = names.files.iter().map(|file| &*file.name);
        let rcs = names.rcs.iter().map(|rc| rc.name.as_str());
        let cache = names.cache.map(|_| crate::cache::NAME);
        let mut all = directories.chain(files).chain(rcs).chain(cache);
        all.all(|name| self.names.contains(Path::new(name)))
    }

    /// Whether anything has changed since this was asked last; taken in, so that it is not told again.
    pub fn take(&self) -> bool {
        let mut events = [0; 4096];
        let mut any = false;
        while rustix::io::read(&self.inotify, &mut events[..]).is_ok_and(|length| length > 0) {
            any = true;
        }
        any || self.mounts_have_changed()
    }

    /// The kernel tells it once, as an exceptional condition.
    fn mounts_have_changed(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut mounts = [PollFd::new(&self.mounts, PollFlags::PRI)];
        poll(&mut mounts, Some(&now)).is_ok_and(|changed| changed > 0)
    }

    /// What is ready to be read where something in the tree has changed.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// Whether an index may have something of that kind in it.
fn is_indexed(kind: &TreeEntryKind) -> bool {
    matches!(
        kind,
        TreeEntryKind::Directory { .. }
            | TreeEntryKind::Rc(..)
            | TreeEntryKind::File(_)
            | TreeEntryKind::Cache
    )
}

fn is_local(path: &Path) -> bool {
    FilesystemKind::of(path).is_some_and(FilesystemKind::is_of_this_kernel)
}
