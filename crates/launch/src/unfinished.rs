//! What is made under a name of the moment goes if becalm is asked to end meanwhile.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::signals::{self, SignalQueue};
use crate::{noted_end, stop};

/// So often, and this far apart, is removed what other threads still write to.
const TRIES: usize = 1000;
const PAUSE: Duration = Duration::from_millis(5);

/// A file or directory that is being made, and has not got its name. While this lives, what asks
/// this process to end (Ctrl-C, `kill`, a terminal that closes) first has it removed; then the
/// process ends by that signal, as it would have at once. Where the thread has
/// [`EndRequests`](crate::EndRequests), or the process notes what asks it to end
/// ([`NotedEnd`](crate::NotedEnd)), the signal waits for whoever looks at these.
pub struct Unfinished {
    work: Arc<UnfinishedWork>,
    /// Ends the watching.
    over: Arc<OwnedFd>,
    /// None where somebody else heeds the signals.
    watching: Option<JoinHandle<()>>,
    mask: libc::sigset_t,
}

struct UnfinishedWork {
    path: PathBuf,
    remove: fn(&Path) -> io::Result<()>,
    /// Whether it has its name. Whoever has come to remove it never lets go.
    is_finished: Mutex<bool>,
}

impl Unfinished {
    /// Makes it, and says how it is removed. The process should have one thread: it is for the
    /// threads that are started from now on to be asked in vain.
    ///
    /// # Errors
    /// Those of making it, of eventfd(2), signalfd(2) and of starting a thread.
    pub fn begin<T: AsRef<Path>>(
        make: impl FnOnce() -> io::Result<T>,
        remove: fn(&Path) -> io::Result<()>,
    ) -> io::Result<(T, Unfinished)> {
        let asking = stop::asking();
        let queue = SignalQueue::of(&asking)?;
        let over = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let mask = signals::block(&asking);
        let begun = make().and_then(|made| {
            let path = made.as_ref().to_owned();
            let work = UnfinishedWork { path, remove, is_finished: Mutex::new(false) };
            let work = Arc::new(work);
            let (watched, end) = (work.clone(), over.clone());
            let watch = || thread::Builder::new().spawn(move || watched.watch(&queue, &end));
            let is_heeded = stop::is_heeded() || noted_end::is_noting();
            let watching = if is_heeded { None } else { Some(watch()?) };
            Ok((made, work, watching))
        });
        match begun {
            Ok((made, work, watching)) => Ok((made, Unfinished { work, over, watching, mask })),
            Err(error) => {
                signals::block_only(&mask);
                Err(error)
            }
        }
    }

    /// The last step, which gives it its name: from there on it stays. Does not return if it is
    /// being removed.
    ///
    /// # Errors
    /// Those of the step. It is still unfinished then.
    pub fn finish<T, E>(&self, step: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut is_finished = self.work.lock();
        let done = step();
        *is_finished = done.is_ok();
        done
    }
}

impl UnfinishedWork {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, queue: &SignalQueue, over: &OwnedFd) {
        let came = loop {
            let _ = poll(&mut [queue.as_fd(), over.as_fd()].map(readable), None);
            match queue.take() {
                Ok(Some(came)) => break came.signal,
                _ if is_set(over) => return,
                _ => {}
            }
        };
        let is_finished = self.lock();
        if !*is_finished {
            self.remove();
        }
        end_by(came);
    }

    /// Until other threads, which find no directory any more, have stopped to put something there.
    fn remove(&self) {
        for _ in 0..TRIES {
            let _ = (self.remove)(&self.path);
            if self.path.symlink_metadata().is_err() {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

fn readable(descriptor: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(descriptor, PollFlags::IN)
}

fn is_set(event: &OwnedFd) -> bool {
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [readable(event.as_fd())], Some(&now)) == Ok(1)
}

/// Ends this process by a signal that its threads hold back.
fn end_by(signal: i32) -> ! {
    signals::unblock(&signals::set([signal]));
    signals::raise(signal);
    // What a handler has taken.
    std::process::exit(128 + signal)
}

impl Drop for Unfinished {
    /// A signal that comes from here on ends the process as ever.
    fn drop(&mut self) {
        // Waits where it is being removed.
        drop(self.work.lock());
        let _ = rustix::io::write(&*self.over, &1u64.to_ne_bytes());
        let _ = self.watching.take().map(JoinHandle::join);
        signals::block_only(&self.mask);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_other_threads_write_to_is_removed_until_it_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tree");
        std::fs::create_dir(&path).unwrap();
        // The first try finds something in it.
        let remove: fn(&Path) -> io::Result<()> = |path| {
            let first = path.metadata()?.permissions().mode() & 0o777 == 0o700;
            match first {
                true => std::fs::set_permissions(path, PermissionsExt::from_mode(0o711)),
                false => std::fs::remove_dir(path),
            }
        };
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        UnfinishedWork { path: path.clone(), remove, is_finished: Mutex::new(false) }.remove();
        assert!(!path.exists());
    }
}
