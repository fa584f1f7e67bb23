//! Signals that ask becalm to end, while it waits for something that it must end first.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What Ctrl-C, `kill`, a terminal that closes and Ctrl-\ send.
const ASKING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// While it lives, these signals do not end this process but wait to be taken. One that is
/// ignored, as under nohup(1), stays ignored.
pub(crate) struct Stop {
    from: OwnedFd,
    mask: libc::sigset_t,
}

impl Stop {
    pub(crate) fn wait_for() -> io::Result<Stop> {
        // SAFETY: both sets are initialised before use; the descriptor is new and nobody else's.
        unsafe {
            let (mut set, mut mask) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut set);
            libc::sigemptyset(&mut mask);
            for signal in ASKING.into_iter().filter(|signal| !is_ignored(*signal)) {
                libc::sigaddset(&mut set, signal);
            }
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::sigprocmask(libc::SIG_BLOCK, &set, &mut mask);
            Ok(Stop { from: OwnedFd::from_raw_fd(fd), mask })
        }
    }

    /// Readable once a signal has come.
    pub(crate) fn fd(&self) -> i32 {
        self.from.as_raw_fd()
    }

    /// The signal that has come, if one has.
    pub(crate) fn signal(&self) -> Option<i32> {
        // SAFETY: the structure is plain numbers, for which zero is valid; the kernel fills at
        // most its size.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of_val(&info);
            let got = libc::read(self.fd(), (&raw mut info).cast(), size);
            (got == size as isize).then_some(info.ssi_signo as i32)
        }
    }

    /// In a child: signals are as they were.
    pub(crate) fn forget(&self) {
        // SAFETY: the mask was filled by the kernel.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut()) };
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        // A second Ctrl-C while the first was heeded must not end the process in the middle.
        while self.signal().is_some() {}
        self.forget();
    }
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is valid, and a null new action only reads the old one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction == libc::SIG_IGN
    }
}
