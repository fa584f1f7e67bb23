//! CLOCK_MONOTONIC, and sleeping by it until a child has news.

use recording::Nanos;

/// The clock of the tap's events, of `Instant`, and of whoever holds threads back.
pub(crate) fn now() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// Has this thread's sleeps end when they should, not up to 50 us later (PR_SET_TIMERSLACK(2)).
/// What it starts from then on inherits that.
pub(crate) fn sleep_exactly() {
    // SAFETY: a plain system call.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Has the kernel tell of children where becalm was started with SIGCHLD ignored. The signal
/// stays blocked: [`wait_for_child`] takes it.
pub(crate) fn hear_of_children() {
    // SAFETY: installs no code.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Sleeps until a child has changed, and at most that long. One that changed since the last
/// `wait4` is not slept through, as its signal is still there.
pub(crate) fn wait_for_child(most: Nanos) {
    let time = libc::timespec {
        tv_sec: (most.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (most.0 % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the set is initialised before use; no information is asked for.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigtimedwait(&set, std::ptr::null_mut(), &time);
    }
}
