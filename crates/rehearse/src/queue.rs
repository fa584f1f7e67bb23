//! A server that works on one thing at a time: all who ask wait in one queue.
//!
//! The queue is one number, the time from which the server is free. Who asks puts its own service
//! behind that. The number lies in memory that all processes of a user on this machine share, so
//! several rehearsals wait for one server, without anybody having to run it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use recording::Nanos;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::retry_on_intr;

use cost::{FilesystemProfile, TimeSpan};

/// The queue of a server.
#[derive(Debug)]
pub struct MachineQueue {
    free_at: FreeAt,
}

/// The queues of a shared filesystem.
#[derive(Debug)]
pub struct MachineQueues {
    /// Its metadata server's.
    pub metadata: MachineQueue,
    /// That of reading and writing, where the profile names a bandwidth.
    pub data: MachineQueue,
}

/// Why a queue cannot be shared.
#[derive(Debug, thiserror::Error)]
#[error("{}: the queue of all clients on this machine: {error}{}", .path.display(), advice(.error))]
pub struct QueueError {
    /// The file that should hold it.
    pub path: PathBuf,
    /// Why it cannot.
    pub error: io::Error,
}

/// What helps, where nothing can be written there.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotFound => {
            "; it needs memory that processes share there: mount -t tmpfs tmpfs /dev/shm"
        }
        io::ErrorKind::StorageFull => "; it needs 4 KiB there: remove what nobody uses",
        io::ErrorKind::PermissionDenied => "; its owner, or root, can remove it",
        _ => "",
    }
}

/// The moment (CLOCK_MONOTONIC, nanoseconds) from which the server has nothing to do.
#[derive(Debug)]
enum FreeAt {
    Own(AtomicU64),
    Shared(QueueMapping),
}

/// A file in memory that several processes map.
#[derive(Debug)]
struct QueueMapping {
    address: std::ptr::NonNull<AtomicU64>,
    file: File,
    path: PathBuf,
}

/// Where it lies.
const MEMORY: &str = "/dev/shm";

/// Whoever asks waits in front of a server: at most this long and the service of so many.
/// What is longer was left by a machine's earlier life or by clients that are gone.
const BACKLOG: (Nanos, u64) = (Nanos(60_000_000_000), 256);

impl MachineQueues {
    /// Queues for one rehearsal alone.
    pub fn alone() -> MachineQueues {
        MachineQueues { metadata: MachineQueue::alone(), data: MachineQueue::alone() }
    }

    /// The queues that all rehearsals of this profile by this user on this machine share.
    ///
    /// # Errors
    /// [`QueueError`].
    pub fn shared(profile: &FilesystemProfile) -> Result<MachineQueues, QueueError> {
        let queue = |what: &str, wanted: bool| match wanted {
            true => MachineQueue::shared(&format!("{}.{what}", profile.name)),
            false => Ok(MachineQueue::alone()),
        };
        Ok(MachineQueues {
            metadata: queue("metadata", profile.mds.service > TimeSpan::ZERO)?,
            data: queue("data", profile.data.bandwidth.is_some())?,
        })
    }
}

impl MachineQueue {
    /// A queue of this process (and of its threads) alone.
    pub fn alone() -> MachineQueue {
        MachineQueue { free_at: FreeAt::Own(AtomicU64::new(0)) }
    }

    /// The queue of this name, the same for all processes of this user on this machine. Its file
    /// goes with the last of them.
    ///
    /// # Errors
    /// [`QueueError`]: there is no memory to share, or somebody else has put a file there.
    pub fn shared(name: &str) -> Result<MachineQueue, QueueError> {
        let failed = |path: &Path, error| QueueError { path: path.to_owned(), error };
        let good = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if !name.chars().all(good) {
            return Err(failed(Path::new(name), io::ErrorKind::InvalidInput.into()));
        }
        let user = rustix::process::geteuid().as_raw();
        let mapping = QueueMapping::first(&names(user, name), user)?;
        Ok(MachineQueue { free_at: FreeAt::Shared(mapping) })
    }

    /// Joins the queue with a service of this length, and says when it begins: now, or when all
    /// that came before is done.
    pub fn admit(&self, now: Nanos, service: Nanos) -> Nanos {
        let latest = now.0.saturating_add(BACKLOG.0.0 + service.0.saturating_mul(BACKLOG.1));
        let begins = |free_at: u64| if free_at > latest { now.0 } else { free_at.max(now.0) };
        let number = self.number();
        if service.0 == 0 {
            return Nanos(begins(number.load(Ordering::Relaxed)));
        }
        let joined = number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free_at| {
            Some(begins(free_at).saturating_add(service.0))
        });
        let (Ok(free_at) | Err(free_at)) = joined;
        Nanos(begins(free_at))
    }

    fn number(&self) -> &AtomicU64 {
        match &self.free_at {
            FreeAt::Own(number) => number,
            // SAFETY: the mapping is at least 8 bytes long, aligned to a page, and lives as long
            // as `self`; all processes access it as an atomic number.
            FreeAt::Shared(mapping) => unsafe { mapping.address.as_ref() },
        }
    }
}

// SAFETY: the mapping holds one atomic number, which any thread may use.
unsafe impl Send for QueueMapping {}
// SAFETY: as above.
unsafe impl Sync for QueueMapping {}

const SIZE: usize = 4096;

/// The names that a queue's file may have. Anybody can take one that can be guessed, and then it is the next: for
/// all who ask.
fn names(user: u32, name: &str) -> Vec<PathBuf> {
    const MORE: u32 = 15;
    let numbers = (1..=MORE).map(|number| format!(".{number}"));
    let ends = [String::new()].into_iter().chain(numbers);
    ends.map(|end| Path::new(MEMORY).join(format!("becalm.{user}.{name}{end}.queue"))).collect()
}

/// Whether something of somebody else's has the name: a file, a link, a directory, a socket.
fn is_taken(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    error.kind() == io::ErrorKind::PermissionDenied
        || [libc::ELOOP, libc::EISDIR, libc::ENXIO].iter().any(|taken| errno == Some(*taken))
}

impl QueueMapping {
    /// That of the first name that nobody else has; else what is wrong with the first.
    fn first(paths: &[PathBuf], user: u32) -> Result<QueueMapping, QueueError> {
        let mut taken = None;
        for path in paths {
            let opened = QueueMapping::open(path, user);
            match opened.map_err(|error| QueueError { path: path.clone(), error }) {
                Err(failed) if is_taken(&failed.error) => taken = taken.or(Some(failed)),
                opened => return opened,
            }
        }
        let none = || QueueError { path: MEMORY.into(), error: io::ErrorKind::NotFound.into() };
        Err(taken.unwrap_or_else(none))
    }

    fn open(path: &Path, user: u32) -> io::Result<QueueMapping> {
        // The last user of the file removes it; then the name leads to another one.
        for _ in 0..100 {
            let file = open_own(path, user)?;
            lock(&file, FlockOperation::LockShared)?;
            let same = path.symlink_metadata();
            let same =
                same.is_ok_and(|named| file.metadata().is_ok_and(|m| m.ino() == named.ino()));
            if same {
                reserve(&file)?;
                return Ok(QueueMapping { address: map(&file)?, file, path: path.to_owned() });
            }
        }
        Err(io::Error::other("it is made and removed again and again"))
    }
}

impl Drop for QueueMapping {
    fn drop(&mut self) {
        // SAFETY: made by mmap with this size, and nothing refers to it any more.
        unsafe { libc::munmap(self.address.as_ptr().cast(), SIZE) };
        if lock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// A file that belongs to this user, made if there is none, and no link to another one.
fn open_own(path: &Path, user: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        File::from(rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR)?);
    let found = file.metadata()?;
    if found.uid() != user || !found.is_file() || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "somebody else's file lies there",
        ));
    }
    Ok(file)
}

/// Gives the file its size and its memory: a page that there is no room for would kill who touches
/// it.
fn reserve(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; what the file holds stays.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, SIZE as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// flock(2).
fn lock(file: &File, how: FlockOperation) -> io::Result<()> {
    Ok(retry_on_intr(|| flock(file, how))?)
}

fn map(file: &File) -> io::Result<std::ptr::NonNull<AtomicU64>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let descriptor = file.as_raw_fd();
    // SAFETY: a new mapping of an open file; no memory of ours is touched.
    let address =
        unsafe { libc::mmap(std::ptr::null_mut(), SIZE, access, libc::MAP_SHARED, descriptor, 0) };
    match address {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        address => std::ptr::NonNull::new(address.cast())
            .ok_or_else(|| io::Error::other("mapped at address 0")),
    }
}
