//! Signals that are held back, and wait to be taken instead of doing what they do (signalfd(2)).

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Signals that are passed on to a command when they are sent to becalm: all but those that
/// cannot be held back, those of its own children and pipes, and the two that the C library's
/// threads use. A fault of becalm's own ends it though its signal is held back: the kernel forces
/// it (kernel/signal.c, `force_sig_info_to_task`), and abort(3) lets it through first.
pub fn passed_on() -> impl Iterator<Item = i32> {
    const KEPT: [i32; 6] = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, libc::SIGPIPE, 32, 33];
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
    set(1..=64)
}

/// Whether a set has a signal.
pub(crate) fn has(set: &libc::sigset_t, signal: i32) -> bool {
    // SAFETY: reads the set.
    unsafe { libc::sigismember(set, signal) == 1 }
}

/// Holds signals back from the calling thread, and returns what was held back before.
pub fn block(signals: &libc::sigset_t) -> libc::sigset_t {
    change_mask(libc::SIG_BLOCK, signals)
}

/// Holds these signals back from the calling thread, and no others. Only makes a system call.
pub fn block_only(signals: &libc::sigset_t) {
    change_mask(libc::SIG_SETMASK, signals);
}

/// Holds signals back from the calling thread no longer.
pub fn unblock(signals: &libc::sigset_t) {
    change_mask(libc::SIG_UNBLOCK, signals);
}

/// The signals that the calling thread holds back, but these.
pub(crate) fn blocked_without(signals: &[i32]) -> libc::sigset_t {
    let blocked = block(&set([]));
    set((1..=64).filter(|signal| has(&blocked, *signal) && !signals.contains(signal)))
}

fn change_mask(how: i32, signals: &libc::sigset_t) -> libc::sigset_t {
    let mut before = *signals;
    // SAFETY: both sets are initialised; the kernel fills the second.
    unsafe { libc::sigprocmask(how, signals, &mut before) };
    before
}

/// Whether one of these signals has come and waits, because it is held back.
pub fn is_pending(signals: impl IntoIterator<Item = i32>) -> bool {
    let mut pending = set([]);
    // SAFETY: the set is initialised; the kernel fills it.
    unsafe { libc::sigpending(&mut pending) };
    signals.into_iter().any(|signal| has(&pending, signal))
}

/// Sends a signal, whichever its number, to a process, or to the group of a negative number
/// (kill(2)).
///
/// # Errors
/// ESRCH, EPERM.
pub fn send(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: passes numbers.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a signal to the calling thread.
pub(crate) fn raise(signal: i32) {
    // SAFETY: passes a number.
    unsafe { libc::raise(signal) };
}

/// What a process does when a signal comes (signal(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disposition(libc::sighandler_t);

impl Disposition {
    /// What the manual says of the signal.
    pub const DEFAULT: Disposition = Disposition(libc::SIG_DFL);
    /// Nothing.
    pub const IGNORED: Disposition = Disposition(libc::SIG_IGN);

    /// That of a signal now. Only makes a system call.
    pub fn of(signal: i32) -> Disposition {
        // SAFETY: an all-zero sigaction is valid, and a null new action only reads the old one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action);
            Disposition(action.sa_sigaction)
        }
    }

    /// Makes it that of a signal, and returns that of before. Only makes a system call.
    pub fn give(self, signal: i32) -> Disposition {
        // SAFETY: it installs no code, or such as was installed before: there is no other way to
        // have this value.
        Disposition(unsafe { libc::signal(signal, self.0) })
    }
}

/// Signals that were held back, in the order in which they are to be taken.
#[derive(Debug)]
pub struct SignalQueue(OwnedFd);

/// A signal that has come.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedSignal {
    /// Which.
    pub signal: i32,
    /// The process that has sent it; 0 for the kernel.
    pub from: i32,
    /// How it came (sigaction(2), `si_code`): above 0 from the kernel.
    pub code: i32,
}

impl SignalQueue {
    /// Of these signals. They come to it as long as they are held back ([`block`]).
    ///
    /// # Errors
    /// Those of signalfd(2).
    pub fn of(signals: &libc::sigset_t) -> io::Result<SignalQueue> {
        // SAFETY: the set is initialised; the descriptor is new and nobody else's.
        unsafe {
            let fd = libc::signalfd(-1, signals, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(SignalQueue(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Takes the next signal that has come; none if none has.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn take(&self) -> io::Result<Option<ReceivedSignal>> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.0, &mut info) {
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let number = |at: usize| {
            let bytes = info.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, i32::from_ne_bytes)
        };
        Ok(Some(ReceivedSignal {
            signal: number(offset_of!(libc::signalfd_siginfo, ssi_signo)),
            from: number(offset_of!(libc::signalfd_siginfo, ssi_pid)),
            code: number(offset_of!(libc::signalfd_siginfo, ssi_code)),
        }))
    }

    /// Waits for a signal, and takes it.
    ///
    /// # Errors
    /// Those of poll(2) and read(2).
    pub fn wait(&self) -> io::Result<ReceivedSignal> {
        loop {
            match self.take() {
                Ok(Some(came)) => return Ok(came),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            // It may be interrupted by a stop.
            let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None);
        }
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{forked, wait_for};

    /// By which signal a child ends that holds back what is passed on, and then does this.
    fn ends_by(fault: fn()) -> i32 {
        let child = || {
            block(&set(passed_on()));
            fault();
            0
        };
        let (status, _) = wait_for(forked(child).unwrap(), 0).unwrap().unwrap();
        if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 }
    }

    #[test]
    fn a_fault_ends_a_process_that_holds_its_signal_back_and_so_does_abort() {
        assert_eq!(ends_by(|| std::process::abort()), libc::SIGABRT);
        let fault = || {
            // SAFETY: the address is no memory's: the kernel ends the child.
            let _ = unsafe { std::ptr::without_provenance::<u8>(8).read_volatile() };
        };
        assert_eq!(ends_by(fault), libc::SIGSEGV);
        assert_eq!(ends_by(|| raise(libc::SIGSEGV)), 0, "sent, not a fault");
    }

    #[test]
    fn a_signal_that_is_held_back_waits_to_be_taken_with_its_sender() {
        let mine = set([libc::SIGWINCH]);
        let before = block(&mine);
        let queue = SignalQueue::of(&mine).unwrap();
        assert!(queue.take().unwrap().is_none());
        raise(libc::SIGWINCH);
        let came = queue.wait().unwrap();
        assert_eq!((came.signal, came.from), (libc::SIGWINCH, std::process::id() as i32));
        assert!(came.code <= 0, "{came:?}");
        assert!(queue.take().unwrap().is_none());
        block_only(&before);
    }
}
