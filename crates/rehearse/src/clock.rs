//! The clock of a rehearsal, and waiting by it to the microsecond.

use std::num::NonZeroU64;
use std::time::Duration;

use recording::Nanos;
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

/// How long before the time a waiting thread stops sleeping and looks at the clock instead: the
/// kernel wakes a sleeper some tens of microseconds late.
const SPIN: Nanos = Nanos(70_000);

/// CLOCK_MONOTONIC: the same for all processes of this machine.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The seconds since 1970, to line up with other programs' files.
pub(crate) fn unix_now() -> Nanos {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Nanos(since.map_or(0, |since| since.as_nanos() as u64))
}

/// Lets the calling thread be woken when it asked to be, not up to 50 us later, which is what
/// the kernel allows itself otherwise (PR_SET_TIMERSLACK in prctl(2)).
pub fn wake_on_time() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Returns at the time, some hundred nanoseconds late at most if the processor is free.
pub fn wait_until(time: Nanos) {
    if let Some(sleep) = sleep_before(time, now()) {
        std::thread::sleep(sleep);
    }
    spin_until(time);
}

/// How long a thread may sleep now so as to be awake at the time; none if it should
/// [`spin_until`] it.
pub(crate) fn sleep_before(time: Nanos, now: Nanos) -> Option<Duration> {
    let left = time.0.saturating_sub(now.0).saturating_sub(SPIN.0);
    (left > 0).then(|| Duration::from_nanos(left))
}

/// Looks at the clock until the time has come.
pub(crate) fn spin_until(time: Nanos) {
    while now() < time {
        std::hint::spin_loop();
    }
}

/// What it takes on this machine to wake another thread and be woken by it, without any work
/// between: the part of a question to a FUSE server that is not the server's work. The lower
/// quartile of a hundred times, so that a busy moment does not shorten every later answer.
pub(crate) fn hand_over() -> Nanos {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    const TIMES: usize = 100;
    const LONGEST_HAND_OVER: u64 = 20_000;
    let Ok((mut here, mut there)) = UnixStream::pair() else { return Nanos(0) };
    let echo = std::thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).and_then(|()| there.write_all(&byte)).is_ok() {}
    });
    let mut byte = [0];
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let start = now();
        if here.write_all(&byte).and_then(|()| here.read_exact(&mut byte)).is_err() {
            break;
        }
        times.push(now().0 - start.0);
    }
    drop(here);
    echo.join().ok();
    times.sort_unstable();
    Nanos(times.get(times.len() / 4).copied().unwrap_or(0).min(LONGEST_HAND_OVER))
}
