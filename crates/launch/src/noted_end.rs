//! A request to end that is noted, for work that must not be left in the middle.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::signals;
use crate::stop;

/// The first signal that was noted; 0 for none.
static NOTED: AtomicI32 = AtomicI32::new(0);

/// Whether there is a [`NotedEnd`].
static IS_NOTING: AtomicBool = AtomicBool::new(false);

/// Whether signals that ask this process to end are noted.
pub(crate) fn is_noting() -> bool {
    IS_NOTING.load(Ordering::Relaxed)
}

/// Only what may be done in a handler (signal-safety(7)).
extern "C" fn note(signal: i32) {
    let _ = NOTED.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
}

/// While it lives, what asks this process to end (Ctrl-C, `kill`, a terminal that closes) is noted, whichever of
/// its threads it reaches, and whoever works asks for it. One that is ignored, as under nohup(1), stays ignored.
/// What this thread holds back for [`EndRequests`](crate::EndRequests), is noted, and waits for these all the same.
///
/// One at a time.
pub struct NotedEnd {
    before: Vec<(i32, libc::sigaction)>,
    is_heeded: bool,
}

impl NotedEnd {
    /// From now on.
    pub fn begin() -> NotedEnd {
        NOTED.store(0, Ordering::Relaxed);
        IS_NOTING.store(true, Ordering::Relaxed);
        let asking = stop::asking();
        let asking = (1..=64).filter(|signal| signals::has(&asking, *signal));
        let before = asking.map(|signal| (signal, handled(signal, &noting()))).collect();
        NotedEnd { before, is_heeded: stop::is_heeded() }
    }

    /// The signal that has come, if one has. Any thread may ask.
    pub fn signal(&self) -> Option<i32> {
        let waits = |signal: &i32| self.is_heeded && signals::is_pending([*signal]);
        match NOTED.load(Ordering::Relaxed) {
            0 => self.before.iter().map(|(signal, _)| *signal).find(waits),
            signal => Some(signal),
        }
    }
}

impl Drop for NotedEnd {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            handled(*signal, before);
        }
        IS_NOTING.store(false, Ordering::Relaxed);
    }
}

/// Calls that wait go on after it.
fn noting() -> libc::sigaction {
    // SAFETY: an all-zero sigaction is valid: an empty mask, and no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = note as extern "C" fn(i32) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    action
}

/// Has a signal handled so; how it was handled before.
fn handled(signal: i32, action: &libc::sigaction) -> libc::sigaction {
    // SAFETY: an all-zero sigaction is valid.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the action is `note`, which may be called at any moment, or one that was installed before.
    unsafe { libc::sigaction(signal, action, &mut before) };
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::Disposition;

    #[test]
    fn what_comes_is_noted_by_whichever_thread_and_handled_as_before_afterwards() {
        // Such as no other test of this process raises.
        Disposition::IGNORED.give(libc::SIGQUIT);
        let ignored = NotedEnd::begin();
        signals::raise(libc::SIGQUIT);
        assert_eq!(ignored.signal(), None);
        drop(ignored);
        Disposition::DEFAULT.give(libc::SIGQUIT);
        let noted = NotedEnd::begin();
        assert_eq!(noted.signal(), None);
        std::thread::spawn(|| signals::raise(libc::SIGQUIT)).join().unwrap();
        assert_eq!(noted.signal(), Some(libc::SIGQUIT));
        drop(noted);
        assert_eq!(Disposition::of(libc::SIGQUIT), Disposition::DEFAULT);
        assert_eq!(NotedEnd::begin().signal(), None);
    }
}
