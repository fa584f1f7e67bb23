//! From when on it is a storm.
//!
//! A storm is large in itself and large in this run:
//!
//! - 200 avoidable operations are 0.1 s of waiting on a cold shared filesystem at 0.5 ms a
//!   question: the delay that a person begins to notice (R. B. Miller, 'Response time in
//!   man-computer conversational transactions', 1968). Fewer are calm, whatever their share:
//!   `true`, `ls` and `git status` ask 5 to 150 questions in all.
//! - Below 5 % of all operations the cure would not be felt, unless they are 5,000: 2.5 s.
//! - A start costs 0.5 to 2 ms of CPU on any machine, so 50 starts of the same program by the
//!   same parent are again 0.1 s at most; that holds even where they ask nothing.

use crate::findings::Threshold;
use crate::words::count;

/// Avoidable operations, at least.
const AVOIDABLE: u64 = 200;
/// Their part of all operations, at least: one in this many.
const ONE_IN: u64 = 20;
/// Or this many of them.
const ALWAYS: u64 = 5_000;
/// Processes of the same program and the same parent that are a storm.
pub const STARTS: u64 = 50;

/// Whether so many avoidable operations out of `total` are a storm.
pub(crate) fn is_storm(avoidable: u64, total: u64) -> bool {
    avoidable >= AVOIDABLE && (avoidable.saturating_mul(ONE_IN) >= total || avoidable >= ALWAYS)
}

/// The threshold as data.
pub(crate) fn threshold() -> Threshold {
    Threshold {
        avoidable: AVOIDABLE,
        share: 1.0 / ONE_IN as f64,
        always: ALWAYS,
        starts: STARTS,
        words: format!(
            "A storm is {AVOIDABLE} avoidable questions (0.1 s on a cold shared filesystem) that \
             are {} % of all, or {} avoidable ones, or {STARTS} starts of the same program by \
             the same parent.",
            100 / ONE_IN,
            count(ALWAYS)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_large_in_itself_and_large_in_its_run() {
        assert!(!is_storm(199, 199), "too few to be felt");
        assert!(is_storm(200, 4_000));
        assert!(!is_storm(200, 4_001), "too small a part");
        assert!(is_storm(5_000, 10_000_000), "many enough whatever the rest");
    }
}
