//! When a look at files is one after which every change shows in their times.
//!
//! A change has the time of the filesystem's own clock, which may be another machine's and goes in
//! steps. What changes twice in one step has the same time both times: a look in between would be
//! taken for true for ever. So it is looked at twice, further apart than a step is long. If all
//! times are the same, the clock had passed them before the second look, whatever it shows; a
//! change after that has a later one.

use std::time::Duration;

/// The longest step of filesystems that count fractions of seconds: a tick of a server, 10 ms, and
/// as much as clocks may run apart.
const TICK: Duration = Duration::from_millis(50);

/// Of those that count whole seconds: FAT counts by twos.
const SECONDS: Duration = Duration::from_millis(2_050);

/// How long to wait before the second look at what changed at these times, in nanoseconds since
/// 1970.
pub(super) fn pause(changed: impl IntoIterator<Item = i128>) -> Duration {
    let mut changed = changed.into_iter();
    if changed.any(|time| time % 1_000_000_000 == 0) { SECONDS } else { TICK }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_time_may_be_whole_seconds_two_of_them_have_to_pass() {
        assert_eq!(pause([1_700_000_000_123_000_000]), TICK);
        assert_eq!(pause([1_700_000_000_123_000_000, 1_700_000_001_000_000_000]), SECONDS);
        assert_eq!(pause([]), TICK);
    }
}
