//! For how long a client trusts what it has: names are looked up once, and again after so many
//! seconds, other names each time, in a directory that nobody changes meanwhile.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tree::named;
use super::{CHECKS, MeasuringPlan, TimedSeries, timed_stat};

/// Names that were asked for once, and again after a while.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LifetimeCheck {
    /// After so long, in seconds.
    pub after_seconds: u64,
    /// stat of files that are there.
    pub there: TimedSeries,
    /// stat of names that are not there.
    pub absent: TimedSeries,
}

/// All checks that there was time for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LifetimeFigures {
    /// By time.
    pub checks: Vec<LifetimeCheck>,
}

/// Watches for so many seconds at most, unless somebody asks to end. Where there is no time for all
/// checks, the last one is at the end of it.
///
/// # Errors
/// Of a stat.
pub fn lifetimes(
    tree: &Path,
    plan: &MeasuringPlan,
    watch: u64,
    is_asked: &dyn Fn() -> bool,
) -> io::Result<LifetimeFigures> {
    let (begun, process) = (Instant::now(), std::process::id());
    let there = |check: usize, number: usize| named(tree, "quiet", check * plan.quiet + number);
    let absent = |check: usize, number: usize| {
        tree.join("quiet").join(format!("no-{process}-{check}-{number}"))
    };
    let checks = checks_within(watch);
    let mut asked = Vec::new();
    for check in 0..checks.len() {
        for number in 0..plan.quiet {
            timed_stat(&there(check, number), true)?;
            timed_stat(&absent(check, number), false)?;
        }
        asked.push(begun.elapsed());
    }
    let mut figures = LifetimeFigures::default();
    for (check, (after, asked)) in checks.into_iter().zip(asked).enumerate() {
        let due = asked + Duration::from_secs(after);
        while begun.elapsed() < due {
            if is_asked() {
                return Ok(figures);
            }
            let left = due.saturating_sub(begun.elapsed());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        let series = |is_there: bool| {
            TimedSeries::of(plan.quiet, |number| match is_there {
                true => timed_stat(&there(check, number), true),
                false => timed_stat(&absent(check, number), false),
            })
        };
        let (there, absent) = (series(true)?, series(false)?);
        figures.checks.push(LifetimeCheck { after_seconds: after, there, absent });
    }
    Ok(figures)
}

/// When names are asked for again: never more often than there are files for.
fn checks_within(watch: u64) -> Vec<u64> {
    let last = watch.min(super::WATCHED_OUT);
    CHECKS.into_iter().filter(|after| *after < last).chain([last]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_check_is_at_the_end_of_what_is_allowed_and_none_is_without_files() {
        assert_eq!(checks_within(31), CHECKS);
        assert_eq!(checks_within(100), CHECKS);
        assert_eq!(checks_within(12), [1, 2, 3, 5, 10, 12]);
        assert_eq!(checks_within(10), [1, 2, 3, 5, 10]);
        assert_eq!(checks_within(30), [1, 2, 3, 5, 10, 15, 20, 29, 30]);
        assert!((1..100).all(|watch| checks_within(watch).len() <= CHECKS.len()));
    }
}
