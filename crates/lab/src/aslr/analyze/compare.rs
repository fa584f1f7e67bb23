//! Whether an arm has more slow processes than another, and what a conclusion takes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use stats::{Chance, Count, least_seen, sample_size};

use super::LEVEL;
use super::count::{SlowTally, sum};
use super::explained::ExcludedSlow;
use super::read::RankSamples;

/// One arm against the baseline. Slow processes of another known cause than the layout are left
/// out of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ArmComparison {
    /// The arm.
    pub arm: String,
    /// What is counted: jobs, or processes where each is a job or where no jobs are told.
    pub by: ComparedUnit,
    /// A job counts as slow if it has more slow processes than this: than the median job of both
    /// arms, which nearly always has none.
    pub more_than: u64,
    /// Whether the conclusion supposes that processes do not depend on each other: there is one job
    /// of each arm, which by itself would prove nothing.
    pub supposes_independence: bool,
    /// How many of it are slow in the arm.
    pub slow: Count,
    /// And in the baseline.
    pub baseline: Count,
    /// In how many blocks, each compared by itself; 1 where there are none.
    pub tables: usize,
    /// How many arms are compared with the baseline, this one and others.
    pub comparisons: usize,
    /// How often chance alone gives an arm so many, be it this one or another that is compared:
    /// Fisher's exact test, one-sided, times `comparisons` (Bonferroni's correction).
    pub p: f64,
    /// How often chance alone makes so large a difference, either way; corrected as `p` is.
    pub p_two_sided: f64,
    /// Whether the arm has more: `p` is at most 5 %.
    pub proven: bool,
    /// The slow processes that are left out, by what made them slow.
    pub left_out: Vec<ExcludedSlow>,
    /// `p`, had none been left out.
    pub p_of_all: f64,
    /// Whether the arm has more slow processes, proven as above, but only with those that are left
    /// out: what differs between the arms is not the layout.
    pub confounded: bool,
    /// What a conclusion would take; none where the arm has not more, or it is proven.
    pub needed: Option<NeededRuns>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComparedUnit {
    /// Processes.
    Ranks,
    /// Jobs that have slow processes.
    Jobs,
}

/// What it would take to prove what was seen, if what was seen is how it is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct NeededRuns {
    /// How many more slow ones in the arm would do, if the baseline stays as it is.
    pub more_slow: Option<u64>,
    /// How many, slow or not, of each arm give a chance of 80 % to prove it; none: not to be had.
    pub for_80_percent: Option<u64>,
    /// The same for 95 %.
    pub for_95_percent: Option<u64>,
}

impl ArmComparison {
    pub(super) fn of(
        samples: &RankSamples,
        tally: &SlowTally,
        arm: usize,
        baseline: usize,
        clustered: bool,
    ) -> ArmComparison {
        let jobs = Jobs::of(samples, tally, [arm, baseline]);
        let supposes_independence = jobs.are_not_told() && !clustered;
        let by = match jobs.are_single || supposes_independence {
            true => ComparedUnit::Ranks,
            false => ComparedUnit::Jobs,
        };
        let more_than = if by == ComparedUnit::Jobs { jobs.median } else { 0 };
        let tables = tables(samples, tally, [arm, baseline], by, more_than);
        let none = Count { seen: 0, of: 0 };
        let (slow, base) =
            tables.iter().fold((none, none), |(one, other), (a, b)| (sum(one, *a), sum(other, *b)));
        let chance = match tables.as_slice() {
            [(one, other)] => Chance::of(*one, *other),
            many => Chance::within(many.iter().copied()),
        };
        let comparisons = samples.arms.len().saturating_sub(1).max(1);
        let corrected = |p: f64| (p * comparisons as f64).min(1.0);
        let p = corrected(chance.at_least(slow.seen));
        let proven = p <= LEVEL;
        ArmComparison {
            arm: samples.arms[arm].name.clone(),
            by,
            more_than,
            supposes_independence,
            slow,
            baseline: base,
            tables: tables.len(),
            comparisons,
            p,
            p_two_sided: corrected(chance.as_unlikely(slow.seen)),
            proven,
            left_out: Vec::new(),
            p_of_all: p,
            confounded: false,
            needed: match proven {
                true => None,
                false => NeededRuns::of(slow, base, LEVEL / comparisons as f64),
            },
        }
    }
}

impl ArmComparison {
    /// Says what all slow processes would have shown, those that were left out among them.
    pub(super) fn beside(
        mut self,
        all: &ArmComparison,
        left_out: Vec<ExcludedSlow>,
    ) -> ArmComparison {
        self.p_of_all = all.p;
        self.confounded = all.proven && !self.proven;
        self.left_out = left_out;
        self
    }
}

/// The jobs of two arms, as far as that is the same whichever arm a job is of: a test that shuffles
/// jobs stays exact.
struct Jobs {
    /// Whether each has one process.
    are_single: bool,
    /// How many slow processes the median job has.
    median: u64,
    /// How many there are, by arm.
    numbers: [usize; 2],
    /// Whether there are blocks, in which each job has a number.
    have_blocks: bool,
}

impl Jobs {
    fn of(samples: &RankSamples, tally: &SlowTally, arms: [usize; 2]) -> Jobs {
        let of_arm = |arm| tally.of_arm(samples, arm);
        let both = || arms.into_iter().flat_map(of_arm);
        let mut slow: Vec<u64> = both().map(|(_, count)| count.seen).collect();
        slow.sort_unstable();
        Jobs {
            are_single: both().all(|(_, count)| count.of == 1),
            median: slow.get(slow.len().saturating_sub(1) / 2).copied().unwrap_or(0),
            numbers: arms.map(|arm| of_arm(arm).count()),
            have_blocks: both().any(|(run, _)| run.block.is_some()),
        }
    }

    /// A file of numbers, or of ranks of which none comes again.
    fn are_not_told(&self) -> bool {
        !self.have_blocks && self.numbers == [1, 1] && !self.are_single
    }
}

/// The counts of two arms, for each block that has both; one table where there are no blocks.
fn tables(
    samples: &RankSamples,
    tally: &SlowTally,
    arms: [usize; 2],
    by: ComparedUnit,
    more_than: u64,
) -> Vec<(Count, Count)> {
    let none = Count { seen: 0, of: 0 };
    let mut tables = BTreeMap::new();
    for (side, arm) in arms.into_iter().enumerate() {
        for (run, count) in tally.of_arm(samples, arm) {
            let table: &mut [Count; 2] = tables.entry(run.block).or_insert([none; 2]);
            let (seen, of) = match by {
                ComparedUnit::Ranks => (count.seen, count.of),
                ComparedUnit::Jobs => (u64::from(count.seen > more_than), 1),
            };
            table[side].seen += seen;
            table[side].of += of;
        }
    }
    let both = tables.into_values().filter(|[one, other]| one.of > 0 && other.of > 0);
    both.map(|[one, other]| (one, other)).collect()
}

impl NeededRuns {
    /// None where the one side has not more than the other.
    fn of(one: Count, other: Count, level: f64) -> Option<NeededRuns> {
        let (p, base) = (one.share()?, other.share()?);
        if p <= base {
            return None;
        }
        let more_slow = least_seen(one.of, other, level).map(|least| least - one.seen.min(least));
        Some(NeededRuns {
            more_slow,
            for_80_percent: sample_size(p, base, level, 0.8),
            for_95_percent: sample_size(p, base, level, 0.95),
        })
    }
}
