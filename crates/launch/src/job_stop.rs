//! Stopping this process as a key of the terminal would, so that a SIGCONT that comes at the same
//! moment is not missed.
//!
//! A shell that sees its job stopped takes the terminal back. If this process looked whether the
//! command is stopped, and then stopped itself by SIGSTOP, a `fg` in between would be followed by
//! that stop: the shell would take back the terminal that it has just given away.

use crate::signals::{self, Disposition};

/// The stops that a terminal sends, which can be held back, as SIGSTOP cannot.
const STOPS: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Stops this process, unless `is_wanted` says no; returns once it has been continued.
///
/// The caller holds back SIGCONT and the stops of the terminal ([`signals::block`]). A SIGCONT that
/// comes after `is_wanted` has looked takes back the stop that waits then (signal(7)).
pub(crate) fn stop_as_a_job(is_wanted: impl Fn() -> bool) {
    let is_wanted_still = stop_by(libc::SIGTSTP, &is_wanted);
    // In an orphaned group, which no shell watches, only SIGSTOP stops (setpgid(2)).
    if is_wanted_still {
        stop_at_once(is_wanted);
    }
}

/// The same by SIGSTOP, which cannot be held back.
pub(crate) fn stop_at_once(is_wanted: impl FnOnce() -> bool) {
    if !signals::is_pending([libc::SIGCONT]) && is_wanted() {
        signals::raise(libc::SIGSTOP);
    }
}

/// The same by one of the terminal's signals, which a shell tells of (`$?` is 148 after SIGTSTP), and
/// not in an orphaned group. Whether it was wanted.
pub fn stop_by(signal: i32, is_wanted: impl FnOnce() -> bool) -> bool {
    let before = Disposition::DEFAULT.give(signal);
    signals::raise(signal);
    let is_wanted_still = is_wanted();
    if is_wanted_still {
        take_stops();
    }
    // To ignore a signal is to drop one that waits (sigaction(2)).
    Disposition::IGNORED.give(signal);
    before.give(signal);
    is_wanted_still
}

/// Whether a signal is a stop that a terminal sends.
pub fn is_terminal_stop(signal: i32) -> bool {
    STOPS.contains(&signal)
}

/// Lets the stops that wait do what they do, and no others: within one call, the kernel exchanges
/// the mask and puts it back. One that comes before this process has woken from the first is taken, too,
/// whatever the command does: some 50 us after a `fg`, or as long as a busy machine lets it wait.
fn take_stops() {
    let mask = signals::blocked_without(&STOPS);
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set is initialised; no descriptor is looked at, and nothing is waited for.
    unsafe { libc::ppoll(std::ptr::null_mut(), 0, &now, &mask) };
}

/// Whether a stop of the terminal has come for this process that it has not taken yet.
pub fn a_stop_is_pending() -> bool {
    signals::is_pending(STOPS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{forked, wait_for};

    /// What a child in a group of its own, which this process watches as a shell would, comes to:
    /// the next change of its state.
    fn change(pid: i32) -> i32 {
        wait_for(pid, libc::WUNTRACED).unwrap().unwrap().0
    }

    /// A child that holds back what it must and stops, if this says so.
    fn child_that_stops(is_wanted: fn() -> bool) -> i32 {
        let child = || {
            signals::block(&signals::set(signals::passed_on()));
            rustix::process::setpgid(None, None).unwrap();
            stop_as_a_job(is_wanted);
            7
        };
        forked(child).unwrap()
    }

    fn assert_exits(status: i32) {
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
    }

    #[test]
    fn a_process_that_is_continued_after_it_has_looked_does_not_stop() {
        let pid = child_that_stops(|| {
            // fg, at the worst of moments.
            signals::send(std::process::id() as i32, libc::SIGCONT).unwrap();
            true
        });
        assert_exits(change(pid));
    }

    #[test]
    fn a_process_that_is_to_stop_stops_until_it_is_continued() {
        let pid = child_that_stops(|| true);
        assert!(libc::WIFSTOPPED(change(pid)));
        signals::send(pid, libc::SIGCONT).unwrap();
        assert_exits(change(pid));
    }

    #[test]
    fn a_process_that_need_not_stop_any_more_does_not() {
        assert_exits(change(child_that_stops(|| false)));
    }
}
