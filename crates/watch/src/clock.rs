//! CLOCK_MONOTONIC, and sleeping by it until a child has news.

use std::num::NonZeroU64;

use recording::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The clock of the tap's events, of `Instant`, and of whoever holds threads back.
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// Has this thread's sleeps end when they should, not up to 50 us later (PR_SET_TIMERSLACK(2)).
/// What it starts from then on inherits that. Where it is refused, sleeps end later.
pub(crate) fn sleep_exactly() {
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// Has the kernel tell of children where becalm was started with SIGCHLD ignored. The signal
/// stays blocked: [`wait_for_child`] takes it.
pub(crate) fn hear_of_children() {
    // SAFETY: installs no code.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Takes signals that wait for this process, which are blocked.
pub(crate) fn take_pending(signals: &[i32]) {
    let set = launch::signals::set(signals.iter().copied());
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set is initialised; no information is asked for.
    while unsafe { libc::sigtimedwait(&set, std::ptr::null_mut(), &now) } > 0 {}
}

/// Sleeps until a child has changed, and at most that long. One that changed since the last
/// `wait4` is not slept through, as its signal is still there.
pub(crate) fn wait_for_child(most: Nanos) {
    let time = libc::timespec {
        tv_sec: (most.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (most.0 % 1_000_000_000) as libc::c_long,
    };
    let of_children = launch::signals::set([libc::SIGCHLD]);
    // SAFETY: the set is initialised; no information is asked for.
    unsafe { libc::sigtimedwait(&of_children, std::ptr::null_mut(), &time) };
}
