//! /proc/PID/schedstat (the kernel's Documentation/scheduler/sched-stats.rst).

use std::time::Duration;

/// How long a thread used a processor, and waited for one while it could have run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Used.
    pub used: Duration,
    /// Waited for, because others had it.
    pub waited: Duration,
}

impl ProcessorTime {
    /// Of a thread, by its id; none if it is gone, or the kernel does not count.
    pub fn of(tid: i32) -> Option<ProcessorTime> {
        ProcessorTime::parse(&std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?)
    }

    fn parse(text: &str) -> Option<ProcessorTime> {
        let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten().map(Duration::from_nanos);
        Some(ProcessorTime { used: next()?, waited: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_numbers_are_used_and_waited() {
        let of = |used, waited| ProcessorTime {
            used: Duration::from_nanos(used),
            waited: Duration::from_nanos(waited),
        };
        assert_eq!(ProcessorTime::parse("1500 20 3\n"), Some(of(1500, 20)));
        assert_eq!(ProcessorTime::parse("1500\n"), None);
        assert_eq!(ProcessorTime::of(-1), None);
    }
}
