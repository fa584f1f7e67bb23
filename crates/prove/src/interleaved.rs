//! Both sides in turns: what changes on the machine meanwhile hits both.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stats::Random;

use crate::bench::{ProofBench, ProofError};
use crate::proof::{Conditions, Proof, RunOrder};
use crate::side::{Side, Subject, TimedRun};

/// Without a number of runs, at least so many of each command: enough for an interval, with one
/// outlier on either side to spare.
pub const FEWEST_RUNS: usize = 10;
/// Without a number of runs, at most so many of each.
pub const MOST_RUNS: usize = 500;
/// Without a number of runs, commands that are quick are run for so long, as hyperfine does.
const WORTHWHILE: Duration = Duration::from_secs(3);

/// What is to be proven, and how.
#[derive(Clone)]
pub struct ProofPlan {
    /// The one command.
    pub before: Subject,
    /// The other.
    pub after: Subject,
    /// How they are run.
    pub bench: ProofBench,
    /// How many timed runs of each; none for as many as are worthwhile.
    pub runs: Option<usize>,
    /// How many runs of each come first and are not counted; at least one is made.
    pub warm_ups: usize,
    /// Which shuffled order.
    pub seed: u64,
    /// The directory in which the first recording of each is kept.
    pub keep: Option<PathBuf>,
    /// Whether their output may differ.
    pub ignore_output: bool,
}

impl ProofPlan {
    /// These two, as many runs as are worthwhile, by the usual [`ProofBench`].
    pub fn new(before: Subject, after: Subject) -> ProofPlan {
        ProofPlan {
            before,
            after,
            bench: ProofBench::default(),
            runs: None,
            warm_ups: 1,
            seed: 1,
            keep: None,
            ignore_output: false,
        }
    }
}

/// How far the work is: so many runs, of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofProgress {
    /// Done.
    pub done: usize,
    /// In all, as far as is known.
    pub of: usize,
}

/// Measures both commands: in each round both, in an order that a coin decides. First the
/// warm-ups, then the recordings, then the timed runs, untraced.
///
/// This forks, and must be called while the process has one thread. `progress` is called after
/// each run.
///
/// # Errors
/// [`ProofError`].
pub fn interleaved(
    plan: &ProofPlan,
    progress: &mut dyn FnMut(ProofProgress),
) -> Result<Proof, ProofError> {
    let (mut before, run_before) = plan.bench.first(&plan.before)?;
    let (mut after, run_after) = plan.bench.first(&plan.after)?;
    let rounds = plan.runs.unwrap_or_else(|| worthwhile(run_before, run_after));
    let warm_ups = plan.warm_ups.saturating_sub(1);
    let mut turns = Turns {
        plan,
        random: Random::seeded(plan.seed),
        done: 2,
        of: 2 * (1 + warm_ups + plan.bench.recordings + rounds),
        progress,
    };
    for _ in 0..warm_ups {
        turns.round(&mut before, &mut after, |subject, side, _| {
            plan.bench.run(subject, side).map(drop)
        })?;
    }
    for time in 0..plan.bench.recordings {
        turns.round(&mut before, &mut after, |subject, side, name| {
            let keep = plan.keep.as_ref().filter(|_| time == 0);
            let keep = keep.map(|directory| kept(directory, name));
            plan.bench.record(subject, side, keep.as_deref())
        })?;
    }
    for _ in 0..rounds {
        turns.round(&mut before, &mut after, |subject, side, _| {
            let run = plan.bench.run(subject, side)?;
            side.runs.push(run);
            Ok(())
        })?;
    }
    let conditions = Conditions {
        order: RunOrder::Interleaved { seed: plan.seed },
        ignore_output: plan.ignore_output,
        warm: plan.bench.elsewhere.is_none()
            && plan.before.prepare.is_empty()
            && plan.after.prepare.is_empty(),
        surroundings: plan.bench.elsewhere.as_ref().map(|elsewhere| elsewhere.words()),
    };
    Ok(Proof::of(before, after, conditions))
}

/// The file in which the recording of a side is kept.
fn kept(directory: &Path, side: &str) -> PathBuf {
    directory.join(format!("{side}.becalm"))
}

struct Turns<'a> {
    plan: &'a ProofPlan,
    random: Random,
    done: usize,
    of: usize,
    progress: &'a mut dyn FnMut(ProofProgress),
}

impl Turns<'_> {
    /// Does the same with both, the one first that a coin shows.
    fn round(
        &mut self,
        before: &mut Side,
        after: &mut Side,
        act: impl Fn(&Subject, &mut Side, &str) -> Result<(), ProofError>,
    ) -> Result<(), ProofError> {
        let mut turns = [(&self.plan.before, before, "before"), (&self.plan.after, after, "after")];
        if self.random.coin() {
            turns.reverse();
        }
        for (subject, side, name) in turns {
            act(subject, side, name)?;
            self.done += 1;
            (self.progress)(ProofProgress { done: self.done, of: self.of });
        }
        Ok(())
    }
}

/// How many runs of each are worthwhile.
fn worthwhile(before: TimedRun, after: TimedRun) -> usize {
    let pair = (before.wall_ns + after.wall_ns).0.max(1);
    let rounds = WORTHWHILE.as_nanos() as u64 / pair;
    usize::try_from(rounds).unwrap_or(MOST_RUNS).clamp(FEWEST_RUNS, MOST_RUNS)
}

#[cfg(test)]
mod tests {
    use recording::Nanos;

    use super::*;

    #[test]
    fn quick_commands_are_run_more_often_within_limits() {
        let run = |millis: u64| TimedRun {
            wall_ns: Nanos(millis * 1_000_000),
            user_us: recording::Micros(0),
            system_us: recording::Micros(0),
            max_rss_bytes: recording::ByteUnits(0),
            served: None,
        };
        assert_eq!(worthwhile(run(10), run(20)), 100);
        assert_eq!(worthwhile(run(1), run(1)), MOST_RUNS);
        assert_eq!(worthwhile(run(60_000), run(1)), FEWEST_RUNS);
        assert_eq!(worthwhile(run(0), run(0)), MOST_RUNS);
    }
}
