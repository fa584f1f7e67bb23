//! perf's clock and the recording's.

use std::time::{SystemTime, UNIX_EPOCH};

use recording::Recording;
use rustix::time::{ClockId, clock_gettime};

/// What CLOCK_MONOTONIC, which perf is told to use, showed when the recording began, in
/// nanoseconds. The recording's header has the time of day of that moment; it is written a few
/// milliseconds after the recording's clock starts.
pub fn origin_ns(recording: &Recording) -> u64 {
    let header = &recording.header;
    let began = u128::from(header.started_unix) * 1_000_000_000 + u128::from(header.started_nanos);
    let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let ago = today.saturating_sub(began);
    u64::try_from(monotonic_ns().saturating_sub(ago)).unwrap_or_default()
}

fn monotonic_ns() -> u128 {
    let now = clock_gettime(ClockId::Monotonic);
    u128::from(now.tv_sec.unsigned_abs()) * 1_000_000_000 + u128::from(now.tv_nsec.unsigned_abs())
}
