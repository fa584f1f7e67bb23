//! What tells that a tree has changed: inotify(7), or on network filesystems, whose changes other
//! machines make, the clock.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use proc::FilesystemKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

use crate::tree::{ModulepathTree, TreeEntryKind};

/// Whoever changes a tree changes more than one file: it is done when it is quiet for so long.
const QUIET: Duration = Duration::from_secs(1);
/// A tree that is never quiet is looked at all the same.
const PATIENCE: Duration = Duration::from_secs(30);
/// What inotify does not tell (a directory above is moved, an expiry) is found this late.
const AT_LEAST: Duration = Duration::from_secs(3600);

/// How changes are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchMethod {
    /// The kernel tells at once.
    Inotify,
    /// Each tree is looked at in turns, because one is on a filesystem that other machines change.
    Remote,
    /// The same, because this user may have no more inotify watches.
    NoMoreWatches,
}

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {error}")]
pub struct WatchError {
    operation: &'static str,
    error: io::Error,
}

/// Trees that are watched.
pub struct Watch {
    how: WatchMethod,
    inotify: Option<OwnedFd>,
    interval: Duration,
}

impl Watch {
    /// Watches trees from now on. What was changed between their walk and now is not told: look
    /// at them once more. Where the kernel cannot tell, [`Watch::wait`] waits for `interval`.
    ///
    /// # Errors
    /// If inotify cannot be used for a reason that time does not heal.
    pub fn over(trees: &[ModulepathTree], interval: Duration) -> Result<Watch, WatchError> {
        let by_clock = |how| Watch { how, inotify: None, interval };
        if trees.iter().any(is_remote) {
            return Ok(by_clock(WatchMethod::Remote));
        }
        let fd = match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(Errno::MFILE) => return Ok(by_clock(WatchMethod::NoMoreWatches)),
            Err(why) => return Err(WatchError { operation: "inotify_init", error: why.into() }),
        };
        for tree in trees {
            match add(&fd, tree) {
                Ok(()) => {}
                Err(Errno::NOSPC) => return Ok(by_clock(WatchMethod::NoMoreWatches)),
                Err(why) => {
                    return Err(WatchError { operation: "inotify_add_watch", error: why.into() });
                }
            }
        }
        Ok(Watch { how: WatchMethod::Inotify, inotify: Some(fd), interval })
    }

    /// How changes are noticed.
    pub fn how(&self) -> WatchMethod {
        self.how
    }

    /// Waits until something has changed and it is quiet again, or it is time to look anyway.
    ///
    /// # Errors
    /// Those of poll(2).
    pub fn wait(&self) -> Result<(), WatchError> {
        let Some(fd) = &self.inotify else {
            std::thread::sleep(self.interval);
            return Ok(());
        };
        if !has_event(fd, AT_LEAST)? {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            drain(fd);
            if begun.elapsed() > PATIENCE || !has_event(fd, QUIET)? {
                return Ok(());
            }
        }
    }
}

/// Watches each directory, and each file behind a link, which may be in any directory.
fn add(fd: &OwnedFd, tree: &ModulepathTree) -> Result<(), Errno> {
    let directory = WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF;
    watch(fd, &tree.root, directory | WatchFlags::ONLYDIR)?;
    for entry in &tree.entries {
        match entry.kind {
            TreeEntryKind::Directory { .. } => {
                watch(fd, &tree.path(entry), directory | WatchFlags::ONLYDIR)?
            }
            TreeEntryKind::File(_) | TreeEntryKind::Rc(..) if entry.is_link => {
                watch(fd, &tree.path(entry), directory)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// What is gone or may not be read by now is found by the next look.
fn watch(fd: &OwnedFd, path: &Path, flags: WatchFlags) -> Result<(), Errno> {
    match inotify::add_watch(fd, path, flags) {
        Ok(_) | Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => Ok(()),
        Err(why) => Err(why),
    }
}

fn has_event(fd: &OwnedFd, within: Duration) -> Result<bool, WatchError> {
    let timeout = Timespec {
        tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(within.subsec_nanos()),
    };
    let mut entries = [PollFd::new(fd, PollFlags::IN)];
    match poll(&mut entries, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(why) => Err(WatchError { operation: "poll", error: why.into() }),
    }
}

/// Which event it was does not matter: the trees are looked at as a whole.
fn drain(fd: &OwnedFd) {
    let mut buffer = [0; 16 << 10];
    while rustix::io::read(fd, &mut buffer[..]).is_ok_and(|length| length > 0) {}
}

/// Whether any of it is on a filesystem that other machines change.
fn is_remote(tree: &ModulepathTree) -> bool {
    let mut seen = HashSet::new();
    let entries = std::iter::once(&tree.top).chain(&tree.entries);
    let mut new =
        entries.filter(|entry| entry.stamp.is_some_and(|stamp| seen.insert(stamp.device)));
    new.any(|entry| is_remote_filesystem(&tree.path(entry)))
}

/// Whether other machines may change what is on a path's filesystem; nobody here is told of that.
pub fn is_remote_filesystem(path: &Path) -> bool {
    let may_be = |kind: FilesystemKind| kind.of_other_machines().is_some() || kind.is_fuse();
    FilesystemKind::of(path).is_some_and(may_be)
}
