//! Signals that are held back, and wait to be taken instead of doing what they do (signalfd(2)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Signals that are passed on to a command when they are sent to becalm: all but those that
/// cannot be held back, those that a fault of its own would raise, those of its own children and
/// pipes, and the two that the C library's threads use.
pub fn passed_on() -> impl Iterator<Item = i32> {
    const KEPT: &[i32] = &[
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGCHLD,
        libc::SIGPIPE,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGABRT,
        32,
        33,
    ];
    (1..=64).filter(|signal| !KEPT.contains(signal))
}

/// A set of signals.
pub fn set(signals: impl IntoIterator<Item = i32>) -> libc::sigset_t {
    // SAFETY: the set is initialised before it is added to; bad numbers are refused.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// All signals.
pub fn all() -> libc::sigset_t {
    // SAFETY: a set is plain data, for which zero is valid; the call fills it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&mut set);
        set
    }
}

/// Holds signals back from the calling thread, and returns what was held back before.
pub fn block(signals: &libc::sigset_t) -> libc::sigset_t {
    let mut before = set([]);
    // SAFETY: both sets are initialised.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, signals, &mut before) };
    before
}

/// Holds these signals back from the calling thread, and no others.
pub fn block_only(signals: &libc::sigset_t) {
    // SAFETY: the set is initialised.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, signals, std::ptr::null_mut()) };
}

/// Whether one of these signals has come and waits, because it is held back.
pub fn is_pending(signals: impl IntoIterator<Item = i32>) -> bool {
    let mut pending = set([]);
    // SAFETY: the set is initialised; the kernel fills it.
    unsafe { libc::sigpending(&mut pending) };
    // SAFETY: reads the set.
    signals.into_iter().any(|signal| unsafe { libc::sigismember(&pending, signal) } == 1)
}

/// Signals that were held back, in the order in which they are to be taken.
#[derive(Debug)]
pub struct Queue(OwnedFd);

/// A signal that has come.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// Which.
    pub signal: i32,
    /// The process that has sent it; 0 for the kernel.
    pub from: i32,
    /// How it came (sigaction(2), `si_code`): above 0 from the kernel.
    pub code: i32,
}

impl Queue {
    /// Of these signals. They come to it as long as they are held back ([`block`]).
    ///
    /// # Errors
    /// Those of signalfd(2).
    pub fn of(signals: &libc::sigset_t) -> io::Result<Queue> {
        // SAFETY: the set is initialised; the descriptor is new and nobody else's.
        unsafe {
            let fd = libc::signalfd(-1, signals, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Queue(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Takes the next signal that has come; none if none has.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn take(&self) -> io::Result<Option<Came>> {
        // SAFETY: the structure is plain numbers, for which zero is valid; the kernel fills at
        // most its size.
        let (got, info) = unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of_val(&info);
            (libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size), info)
        };
        if got == size_of_val(&info) as isize {
            let (signal, from) = (info.ssi_signo as i32, info.ssi_pid as i32);
            return Ok(Some(Came { signal, from, code: info.ssi_code }));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        }
    }

    /// Waits for a signal, and takes it.
    ///
    /// # Errors
    /// Those of poll(2) and read(2).
    pub fn wait(&self) -> io::Result<Came> {
        loop {
            match self.take() {
                Ok(Some(came)) => return Ok(came),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let mut ready =
                libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry, which outlives the call. It may be interrupted by a stop.
            unsafe { libc::poll(&mut ready, 1, -1) };
        }
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_held_back_waits_to_be_taken_with_its_sender() {
        let mine = set([libc::SIGWINCH]);
        let before = block(&mine);
        let queue = Queue::of(&mine).unwrap();
        assert!(queue.take().unwrap().is_none());
        // SAFETY: a signal to this thread, which holds it back.
        unsafe { libc::raise(libc::SIGWINCH) };
        let came = queue.wait().unwrap();
        assert_eq!((came.signal, came.from), (libc::SIGWINCH, std::process::id() as i32));
        assert!(came.code <= 0, "{came:?}");
        assert!(queue.take().unwrap().is_none());
        block_only(&before);
    }
}
