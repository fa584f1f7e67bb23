//! From when on it is a storm.
//!
//! A storm is long in itself and long in this run, on the filesystem that was chosen:
//!
//! - What a cure would take away keeps one rank waiting for 0.1 s: the delay that a person begins
//!   to notice (R. B. Miller, 'Response time in man-computer conversational transactions', 1968).
//! - Below 5 % of the start's wait the cure would not be felt, unless it is 2.5 s.
//! - An exec takes 0.5 to 2 ms of CPU on any machine, so 50 of the same program by the same parent
//!   are again 0.1 s at most; that holds even where they wait for nothing.

use crate::findings::Threshold;

/// Seconds that one rank waits for what a cure would take away, at least.
const NOTICED: f64 = 0.1;
/// Its part of the start's wait, at least: one in this many.
const ONE_IN: f64 = 20.0;
/// Or this many seconds.
const ALWAYS: f64 = 2.5;
/// Seconds of a start up to which a person's train of thought goes on (the same paper).
const UNBROKEN: f64 = 1.0;
/// Seconds of data that page faults fetch, at least: it stays in a node's memory as long as there is
/// room, and names only for seconds, so fewer starts wait for it.
const DATA_NOTICED: f64 = 0.25;
/// Execs of the same program by the same parent.
pub const STARTS: u64 = 50;

/// Whether so many seconds that a cure would take away, of a start that waits `all` seconds, are a
/// storm.
pub(crate) fn is_storm(avoidable: f64, all: f64) -> bool {
    is_felt(avoidable) && (avoidable * ONE_IN >= all || avoidable >= ALWAYS)
}

/// The same of data that page faults fetch.
pub(crate) fn is_storm_of_data(avoidable: f64, all: f64) -> bool {
    avoidable >= DATA_NOTICED && is_storm(avoidable, all)
}

/// Whether a person notices a wait of so many seconds.
pub(crate) fn is_felt(wait: f64) -> bool {
    wait >= NOTICED
}

/// Whether so many operations, of which each might take so long, would be felt if they were counted,
/// and are a considerable part of all.
pub(crate) fn would_be_felt(operations: u64, all: u64, latency: f64) -> bool {
    operations as f64 * latency > NOTICED && operations * 4 >= all
}

/// Whether a start that waits so many seconds can be called calm; of so many operations so many
/// fail. A search that nobody has a name for is none.
pub(crate) fn is_calm(all: f64, operations: u64, enoent: u64) -> bool {
    !is_felt(all) || all <= UNBROKEN && enoent * 4 <= operations
}

/// The threshold as data; `on` is what the filesystem is called.
pub(crate) fn threshold(on: &str) -> Threshold {
    Threshold {
        avoidable_wait: NOTICED,
        share: 1.0 / ONE_IN,
        always: ALWAYS,
        execs: STARTS,
        words: format!(
            "A storm is {NOTICED} s of avoidable wait of one rank on {on} ({DATA_NOTICED} s of page \
             faults) that is {} % of all, or {ALWAYS} s, or {STARTS} execs of the same program by the same parent.",
            100.0 / ONE_IN,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_long_in_itself_and_long_in_its_run() {
        assert!(!is_storm(0.099, 0.099), "too short to be felt");
        assert!(is_storm(0.1, 2.0));
        assert!(!is_storm(0.1, 2.1), "too small a part");
        assert!(is_storm_of_data(0.25, 2.0) && !is_storm_of_data(0.24, 0.24));
        assert!(is_storm(2.5, 1e6), "long enough whatever the rest");
    }

    #[test]
    fn a_start_is_calm_up_to_what_interrupts_a_person() {
        assert!(is_calm(1.0, 100, 25) && !is_calm(1.001, 100, 0));
        assert!(is_calm(0.099, 100, 100) && !is_calm(0.1, 100, 26), "a search");
    }
}
