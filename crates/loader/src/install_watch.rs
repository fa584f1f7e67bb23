//! Trees that something is installed into, and when that is over: inotify(7).

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// What an installation does to a directory or to the files in it. What is removed needs no binding.
const CHANGE: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

/// Why trees cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum InstallWatchError {
    /// There are more directories than this user may watch.
    #[error(
        "{}: {watches} directories, more than this user may watch: raise fs.inotify.max_user_watches",
        path.display()
    )]
    TooMany {
        /// The directory that is one too many.
        path: PathBuf,
        /// How many are watched.
        watches: usize,
    },
    /// A tree is not there any more.
    #[error("{}: moved or removed, and no longer watched", path.display())]
    Gone {
        /// The tree.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("{}: cannot watch: {error}", path.display())]
    System {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Trees that are watched.
pub struct InstallWatch {
    inotify: OwnedFd,
    roots: Vec<PathBuf>,
    /// By the kernel's number of a watch, the directory.
    directories: HashMap<i32, PathBuf>,
    /// Those that may not be read: one may be opened to us later.
    closed: HashSet<PathBuf>,
}

impl InstallWatch {
    /// Watches trees from now on. Directories behind symbolic links are not looked into.
    ///
    /// # Errors
    /// [`InstallWatchError`]
    pub fn over(roots: &[PathBuf]) -> Result<InstallWatch, InstallWatchError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| InstallWatchError::System { path, error }
        };
        let first = roots.first().map_or(Path::new("/"), PathBuf::as_path);
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let inotify = inotify.map_err(|error| failed(first)(error.into()))?;
        // The name that is given may be a link.
        let real = |root: &PathBuf| root.canonicalize().map_err(failed(root));
        let roots = roots.iter().map(real).collect::<Result<Vec<_>, _>>()?;
        let (directories, closed) = (HashMap::new(), HashSet::new());
        let mut watch = InstallWatch { inotify, roots, directories, closed };
        for root in watch.roots.clone() {
            watch.add(root.clone())?;
            if !watch.directories.values().any(|directory| *directory == root) {
                let error = io::Error::from(io::ErrorKind::NotADirectory);
                return Err(InstallWatchError::System { path: root, error });
            }
        }
        Ok(watch)
    }

    /// How many directories are watched.
    pub fn directories(&self) -> usize {
        self.directories.len()
    }

    /// Waits for a change, and until there was none for so long.
    ///
    /// # Errors
    /// [`InstallWatchError`]
    pub fn wait(&mut self, quiet: Duration) -> Result<(), InstallWatchError> {
        self.is_told_within(None)?;
        loop {
            self.take()?;
            if !self.is_told_within(Some(quiet))? {
                return Ok(());
            }
        }
    }

    /// Watches a directory and all below it. Watched before it is read: what is made in it in between
    /// is met by one or the other.
    fn add(&mut self, top: PathBuf) -> Result<(), InstallWatchError> {
        let mut stack = vec![top];
        while let Some(path) = stack.pop() {
            match inotify::add_watch(&self.inotify, &path, CHANGE) {
                Ok(number) => self.directories.insert(number, path.clone()),
                Err(Errno::ACCESS) => {
                    self.closed.insert(path);
                    continue;
                }
                // Gone by now.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(Errno::NOSPC) => {
                    let watches = self.directories.len();
                    return Err(InstallWatchError::TooMany { path, watches });
                }
                Err(error) => return Err(InstallWatchError::System { path, error: error.into() }),
            };
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            stack.extend(below.map(|entry| entry.path()));
        }
        Ok(())
    }

    /// Takes in what the kernel has told, and watches the directories that are new.
    fn take(&mut self) -> Result<(), InstallWatchError> {
        let mut new = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        // It ends with EAGAIN, when all is read.
        while let Ok(event) = events.next() {
            let told = event.events();
            if told.contains(ReadFlags::QUEUE_OVERFLOW) {
                new.extend(self.roots.iter().cloned());
                continue;
            }
            let Some(directory) = self.directories.get(&event.wd()) else { continue };
            if told.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF)
                && self.roots.contains(directory)
            {
                return Err(InstallWatchError::Gone { path: directory.clone() });
            }
            if let (true, Some(name)) = (told.contains(ReadFlags::ISDIR), event.file_name()) {
                let directory = directory.join(OsStr::from_bytes(name.to_bytes()));
                let is_opened = told.contains(ReadFlags::ATTRIB) && self.closed.remove(&directory);
                if is_opened || told.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                    new.push(directory);
                }
            }
            if told.contains(ReadFlags::IGNORED) {
                self.directories.remove(&event.wd());
            }
        }
        new.into_iter().try_for_each(|directory| self.add(directory))
    }

    /// Whether the kernel tells of something within a time, or ever.
    fn is_told_within(&self, time: Option<Duration>) -> Result<bool, InstallWatchError> {
        let timeout = time.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        loop {
            let mut entries = [PollFd::new(&self.inotify, PollFlags::IN)];
            match poll(&mut entries, timeout.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => {
                    let path = self.roots.first().cloned().unwrap_or_default();
                    return Err(InstallWatchError::System { path, error: error.into() });
                }
            }
        }
    }
}
