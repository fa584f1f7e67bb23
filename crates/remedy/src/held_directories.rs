//! Directories that stay open from when they are looked at until all is done in them: to open one again
//! for each step takes longer than the step.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{Mode, OFlags};

use crate::Error;
use crate::held::HeldDirectory;
use crate::path_map::PathMap;

/// No more than this many are held, whatever the process may open: the kernel has tables of its own.
const MOST: usize = 4096;

/// What is open besides; for as many more, nothing has to be done.
const OTHERS: usize = 64;

/// Has the kernel make room for as many descriptors as are held at most: do it while this process has one thread.
/// In one of several, each doubling of its table of descriptors waits until no processor can be looking at the old
/// one (`expand_fdtable` in fs/file.c); to hold a thousand directories took a tenth of all the time that binding
/// them took.
pub(crate) fn make_room() {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let room = |open: OwnedFd| {
        let last = i32::try_from(most() + OTHERS).unwrap_or(i32::MAX);
        rustix::io::fcntl_dupfd_cloexec(open, last).map(drop)
    };
    // Without it, it takes longer and that is all.
    let _ = rustix::fs::open("/", flags, Mode::empty()).and_then(room);
}

/// The same where so many directories may come to be held.
pub(crate) fn make_room_for(directories: usize) {
    if directories > OTHERS {
        make_room();
    }
}

/// Directories without links on the way to them, by their paths.
#[derive(Debug, Default)]
pub(crate) struct HeldDirectories(Mutex<PathMap<Arc<HeldDirectory>>>);

impl HeldDirectories {
    /// A directory, opened unless it is held.
    ///
    /// # Errors
    /// Those of [`HeldDirectory::open`].
    pub(crate) fn open(&self, directory: &Path) -> Result<Arc<HeldDirectory>, Error> {
        match self.real(directory) {
            Some(held) => Ok(held),
            None => HeldDirectory::open(directory).map(Arc::new),
        }
    }

    /// The same, if it is there and no symbolic link on the way to it.
    pub(crate) fn real(&self, directory: &Path) -> Option<Arc<HeldDirectory>> {
        if let Some(held) = self.lock().get(directory) {
            return Some(Arc::clone(held));
        }
        let opened = Arc::new(HeldDirectory::without_links(directory)?);
        let mut held = self.lock();
        // Another thread may have been faster.
        if !held.contains(directory) && HELD.load(Ordering::Relaxed) < most() {
            HELD.fetch_add(1, Ordering::Relaxed);
            held.insert(directory, Arc::clone(&opened));
        }
        Some(opened)
    }

    /// A directory that is there, if it is: itself, where it stays open. What is held may have been moved away
    /// since, and another be at its path: what is changed by its path is looked at there once more.
    #[allow(clippy::option_option)]
    pub(crate) fn held_at(&self, directory: &Path) -> Option<Option<Arc<HeldDirectory>>> {
        let opened = self.open(directory).ok()?;
        Some(self.lock().contains(directory).then_some(opened))
    }

    fn lock(&self) -> MutexGuard<'_, PathMap<Arc<HeldDirectory>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldDirectories {
    fn drop(&mut self) {
        HELD.fetch_sub(self.lock().len(), Ordering::Relaxed);
    }
}

/// How many are held in this process. Several threads that ask at a time may go a little too far.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Half of what this process may open leaves enough for all else.
fn most() -> usize {
    static MOST_HERE: OnceLock<usize> = OnceLock::new();
    *MOST_HERE.get_or_init(|| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        limit.map_or(MOST, |limit| usize::try_from(limit / 2).map_or(MOST, |half| half.min(MOST)))
    })
}
