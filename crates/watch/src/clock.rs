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

/// Has wait4(2) of this thread return once in a while, with EINTR, until the process ends. Where the
/// kernel refuses the timer, it returns with the next child's change.
pub(crate) fn wake_every(pause: Nanos) {
    extern "C" fn nothing(_signal: i32) {}
    let interval = libc::timespec { tv_sec: 0, tv_nsec: pause.0.min(999_999_999) as libc::c_long };
    // SAFETY: the handler does nothing; the structures are plain numbers, initialised before the
    // kernel reads them, and outlive the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer = std::mem::zeroed();
        if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) == 0 {
            let times = libc::itimerspec { it_interval: interval, it_value: interval };
            libc::timer_settime(timer, 0, &times, std::ptr::null_mut());
        }
    }
    launch::signals::unblock(&launch::signals::set([libc::SIGALRM]));
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
