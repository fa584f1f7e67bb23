//! Signals that ask becalm to end, while it waits for something that it must end first.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::signals::{self, Disposition, SignalQueue};

/// What Ctrl-C, `kill`, a terminal that closes and Ctrl-\ send.
const ASKING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Those of them that are not ignored, as under nohup(1).
pub(crate) fn asking() -> libc::sigset_t {
    let is_ignored = |signal: &i32| Disposition::of(*signal) == Disposition::IGNORED;
    signals::set(ASKING.into_iter().filter(|signal| !is_ignored(signal)))
}

thread_local! {
    /// Which signals the thread held back before it had any [`EndRequests`]: its children do so.
    static BEFORE: Cell<Option<libc::sigset_t>> = const { Cell::new(None) };
}

/// Whether this thread has [`EndRequests`].
pub(crate) fn is_heeded() -> bool {
    BEFORE.get().is_some()
}

/// While it lives, these signals do not end this process but wait to be taken. One that is
/// ignored, as under nohup(1), stays ignored.
///
/// Around several commands, it keeps what belongs together from being broken off between them: a
/// [`crate::Stage`] has one of its own and takes what has come before it, too.
pub struct EndRequests {
    queue: SignalQueue,
    /// What was held back before the outermost.
    mask: libc::sigset_t,
    is_outermost: bool,
}

impl EndRequests {
    /// From now on, of the calling thread and those that it starts.
    ///
    /// # Errors
    /// Those of signalfd(2).
    pub fn wait_for() -> io::Result<EndRequests> {
        let asking = asking();
        let queue = SignalQueue::of(&asking)?;
        let held = signals::block(&asking);
        let before = BEFORE.get();
        BEFORE.set(before.or(Some(held)));
        Ok(EndRequests { queue, mask: before.unwrap_or(held), is_outermost: before.is_none() })
    }

    /// The signal that has come, if one has.
    pub fn signal(&self) -> Option<i32> {
        self.queue.take().ok().flatten().map(|came| came.signal)
    }

    /// In a child: signals are as they were.
    pub(crate) fn forget(&self) {
        signals::block_only(&self.mask);
        BEFORE.set(None);
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
        // What comes now is for the one around it.
        if !self.is_outermost {
            return;
        }
        // A second Ctrl-C while the first was heeded must not end the process in the middle.
        while self.signal().is_some() {}
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_an_inner_one_is_for_the_outer_one_and_a_child_holds_back_neither() {
        let before = signals::block(&signals::set([]));
        let is_held = || signals::blocked_without(&[]);
        let outer = EndRequests::wait_for().unwrap();
        let inner = EndRequests::wait_for().unwrap();
        signals::raise(libc::SIGHUP);
        assert_eq!(inner.signal(), Some(libc::SIGHUP));
        signals::raise(libc::SIGTERM);
        drop(inner);
        assert_eq!(outer.signal(), Some(libc::SIGTERM));
        let inner = EndRequests::wait_for().unwrap();
        inner.forget();
        assert!(!signals::has(&is_held(), libc::SIGTERM));
        signals::block_only(&before);
    }
}
