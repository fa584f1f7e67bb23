//! How the ranks of a node find a tree: its users hold a file's lock shared, who makes or removes
//! the tree has it alone (flock(2)). The kernel takes locks away from whoever ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Resource, getrlimit};

/// No more of a failure's words is read.
const MOST_WORDS: u64 = 4096;
/// Descriptors from here on are seldom used by numbers: a shell's `exec 3>` is far below.
const HIGH: u64 = 1000;

/// A lock's file, opened.
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

/// What has become of it meanwhile.
pub(super) enum LockState {
    /// It is the one that all others meet at.
    Current,
    /// It lost its name: the tree was removed, or has never come to be.
    Gone {
        /// Why it has never come to be.
        failure: Option<String>,
    },
}

impl Lock {
    /// Opens it, and makes it where it is not there.
    pub fn open(path: PathBuf) -> io::Result<Lock> {
        Lock::open_with(path, OpenOptions::new().create(true))
    }

    /// Opens it, if it is there.
    pub fn find(path: PathBuf) -> io::Result<Lock> {
        Lock::open_with(path, &mut OpenOptions::new())
    }

    fn open_with(path: PathBuf, how: &mut OpenOptions) -> io::Result<Lock> {
        let how = how.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        Ok(Lock { file: how.open(&path)?, path })
    }

    /// Waits until nobody makes or removes the tree, and keeps anybody from that.
    pub fn share(&self) -> io::Result<LockState> {
        self.wait(FlockOperation::LockShared)
    }

    /// Waits until nobody uses the tree. Whoever held it shared gives that up before.
    pub fn own(&self) -> io::Result<LockState> {
        self.wait(FlockOperation::LockExclusive)
    }

    fn wait(&self, operation: FlockOperation) -> io::Result<LockState> {
        loop {
            match flock(&self.file, operation) {
                Err(Errno::INTR) => {}
                done => break done?,
            }
        }
        self.state()
    }

    /// The same without waiting; false where the tree is in use, or gone.
    pub fn own_at_once(&self) -> bool {
        flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
            && matches!(self.state(), Ok(LockState::Current))
    }

    /// Gives it up.
    pub fn let_go(&self) -> io::Result<()> {
        Ok(flock(&self.file, FlockOperation::Unlock)?)
    }

    fn state(&self) -> io::Result<LockState> {
        if self.file.metadata()?.nlink() > 0 {
            return Ok(LockState::Current);
        }
        let mut words = String::new();
        (&self.file).take(MOST_WORDS).read_to_string(&mut words)?;
        Ok(LockState::Gone { failure: Some(words).filter(|words| !words.is_empty()) })
    }

    /// Takes its name away, for who owns it: who waits for it looks for a new one.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    /// The same, and tells those who wait for it why there is no tree.
    pub fn fail(&self, why: &str) -> io::Result<()> {
        // Where there is no room for that either, they find out for themselves.
        let _ = (&self.file).write_all(why.as_bytes());
        self.remove()
    }

    /// The lock stays as long as this process lives, also as another program, and all that
    /// inherits the descriptor.
    pub fn keep(self) -> io::Result<()> {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(HIGH).min(HIGH);
        let high = fcntl_dupfd_cloexec(&self.file, limit.saturating_sub(16) as i32)?;
        fcntl_setfd(&high, FdFlags::empty())?;
        let _kept = high.into_raw_fd();
        Ok(())
    }
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
