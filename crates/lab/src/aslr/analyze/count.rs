//! How many processes are slow, how sure that is, and whether they come in clusters.

use schemars::JsonSchema;
use serde::Serialize;
use stats::{Bounds, Chance, Count, Summary, any};

use super::CONFIDENCE;
use super::limit::SlowLimits;
use super::read::{LoggedRun, RankSample, RankSamples};

/// Clusters are only spoken of where chance makes them less often than this.
const CERTAIN: f64 = 0.001;

/// Slow processes, by run.
pub(super) struct SlowTally {
    of_run: Vec<Count>,
}

impl SlowTally {
    pub(super) fn of(samples: &RankSamples, is_slow: impl Fn(&RankSample) -> bool) -> SlowTally {
        let mut of_run = vec![Count { seen: 0, of: 0 }; samples.runs.len()];
        for sample in &samples.samples {
            let count = &mut of_run[sample.run as usize];
            count.of += 1;
            count.seen += u64::from(is_slow(sample));
        }
        SlowTally { of_run }
    }

    pub(super) fn slow(&self) -> u64 {
        self.of_run.iter().map(|count| count.seen).sum()
    }

    /// The runs of an arm, with their counts.
    pub(super) fn of_arm<'a>(
        &'a self,
        samples: &'a RankSamples,
        arm: usize,
    ) -> impl Iterator<Item = (&'a LoggedRun, Count)> {
        let all = samples.runs.iter().zip(self.of_run.iter().copied());
        all.filter(move |(run, _)| run.arm == arm)
    }

    /// How many processes of an arm are slow.
    pub(super) fn processes(&self, samples: &RankSamples, arm: usize) -> Count {
        let none = Count { seen: 0, of: 0 };
        self.of_arm(samples, arm).fold(none, |sum, (_, count)| Count {
            seen: sum.seen + count.seen,
            of: sum.of + count.of,
        })
    }
}

/// An arm in numbers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ArmCount {
    /// Its name.
    pub name: String,
    /// In how many files it is.
    pub files: usize,
    /// How many jobs it ran.
    pub jobs: usize,
    /// Its times, in seconds.
    pub times: Summary,
    /// How many of its processes are slow.
    pub slow: Count,
    /// The chance of a process to be slow: where it lies, with 95 %.
    pub chance: Bounds,
    /// The chance of a job to have a slow rank.
    pub job: Risk,
}

/// The chance of a job to have a slow rank.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Risk {
    /// If the share that was seen is the chance of each.
    pub seen: f64,
    /// Where it lies, with 95 %.
    pub bounds: Bounds,
}

impl ArmCount {
    pub(super) fn of(
        samples: &RankSamples,
        arm: usize,
        tally: &SlowTally,
        ranks: u64,
    ) -> Option<ArmCount> {
        let slow = tally.processes(samples, arm);
        let chance = slow.bounds(CONFIDENCE);
        let bounds = Bounds { low: any(ranks, chance.low), high: any(ranks, chance.high) };
        Some(ArmCount {
            name: samples.arms[arm].name.clone(),
            files: samples.arms[arm].files.len(),
            jobs: tally.of_arm(samples, arm).count(),
            times: Summary::of(&samples.values(arm))?,
            slow,
            chance,
            job: Risk { seen: any(ranks, slow.share()?), bounds },
        })
    }
}

/// Two counts together.
pub(super) fn sum(a: Count, b: Count) -> Count {
    Count { seen: a.seen + b.seen, of: a.of + b.of }
}

/// How slow processes follow each other in the logs.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Clusters {
    /// How many are slow of those that follow a slow one of their job.
    pub after_slow: Count,
    /// How many are slow of those that follow another.
    pub after_other: Count,
    /// How often chance alone puts so many after slow ones.
    pub p: f64,
    /// Whether that is so seldom that processes cannot be taken for independent.
    pub clustered: bool,
}

impl Clusters {
    /// None where no process follows a slow one.
    pub(super) fn of(samples: &RankSamples, limits: &SlowLimits) -> Option<Clusters> {
        let none = Count { seen: 0, of: 0 };
        let mut by_arm = vec![(none, none); samples.arms.len()];
        for pair in samples.samples.windows(2) {
            let [before, this] = pair else { continue };
            if before.run == this.run {
                let (after_slow, after_other) = &mut by_arm[samples.runs[this.run as usize].arm];
                let count = if limits.is_slow(before) { after_slow } else { after_other };
                count.of += 1;
                count.seen += u64::from(limits.is_slow(this));
            }
        }
        let (after_slow, after_other) = by_arm
            .iter()
            .fold((none, none), |(slow, other), arm| (sum(slow, arm.0), sum(other, arm.1)));
        if after_slow.of == 0 {
            return None;
        }
        // Within arms: where one has more slow processes than another, they do not follow each
        // other for that.
        let p = Chance::within(by_arm).at_least(after_slow.seen);
        Some(Clusters { after_slow, after_other, p, clustered: p < CERTAIN })
    }
}
