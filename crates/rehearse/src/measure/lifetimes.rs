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

/// Watches for as long as the plan says, unless somebody asks to end.
///
/// # Errors
/// Of a stat.
pub fn lifetimes(
    tree: &Path,
    plan: &MeasuringPlan,
    is_asked: &dyn Fn() -> bool,
) -> io::Result<LifetimeFigures> {
    let (begun, process) = (Instant::now(), std::process::id());
    let there = |check: usize, number: usize| named(tree, "quiet", check * plan.quiet + number);
    let absent = |check: usize, number: usize| {
        tree.join("quiet").join(format!("no-{process}-{check}-{number}"))
    };
    let checks: Vec<u64> = CHECKS.into_iter().filter(|after| *after <= plan.watch).collect();
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
