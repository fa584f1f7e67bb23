//! Signals that ask becalm to end, while it waits for something that it must end first.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::signals::{self, Disposition, SignalQueue};

/// What Ctrl-C, `kill`, a terminal that closes and Ctrl-\ send.
const ASKING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// While it lives, these signals do not end this process but wait to be taken. One that is
/// ignored, as under nohup(1), stays ignored.
pub(crate) struct EndRequests {
    queue: SignalQueue,
    mask: libc::sigset_t,
}

impl EndRequests {
    pub(crate) fn wait_for() -> io::Result<EndRequests> {
        let is_ignored = |signal: &i32| Disposition::of(*signal) == Disposition::IGNORED;
        let asking = signals::set(ASKING.into_iter().filter(|signal| !is_ignored(signal)));
        Ok(EndRequests { queue: SignalQueue::of(&asking)?, mask: signals::block(&asking) })
    }

    /// The signal that has come, if one has.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.queue.take().ok().flatten().map(|came| came.signal)
    }

    /// In a child: signals are as they were.
    pub(crate) fn forget(&self) {
        signals::block_only(&self.mask);
    }
}

/// Readable once a signal has come.
impl AsFd for EndRequests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl Drop for EndRequests {
    fn drop(&mut self) {
        // A second Ctrl-C while the first was heeded must not end the process in the middle.
        while self.signal().is_some() {}
        self.forget();
    }
}
