//! Whether an arm has more slow processes than another, and what a conclusion takes.

use std::collections::BTreeMap;

use serde::Serialize;
use stats::{Chance, Count, least_seen, sample_size};

use super::LEVEL;
use super::count::Tally;
use super::read::Samples;

/// One arm against the baseline.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The arm.
    pub arm: String,
    /// What is counted: processes, or whole jobs where slow processes come in clusters.
    pub by: By,
    /// How many of it are slow in the arm.
    pub slow: Count,
    /// And in the baseline.
    pub baseline: Count,
    /// In how many blocks, each compared by itself; 1 where there are none.
    pub tables: usize,
    /// How often chance alone gives the arm so many: Fisher's exact test, one-sided.
    pub p: f64,
    /// How often chance alone makes so large a difference, either way.
    pub p_two_sided: f64,
    /// Whether the arm has more: `p` is at most 5 %.
    pub proven: bool,
    /// What a conclusion would take; none where the arm has not more, or it is proven.
    pub needed: Option<Needed>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Processes.
    Ranks,
    /// Jobs that have a slow process.
    Jobs,
}

/// What it would take to prove what was seen, if what was seen is how it is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Needed {
    /// How many more slow ones in the arm would do, if the baseline stays as it is.
    pub more_slow: Option<u64>,
    /// How many, slow or not, of each arm give a chance of 80 % to prove it; none: not to be had.
    pub for_80_percent: Option<u64>,
    /// The same for 95 %.
    pub for_95_percent: Option<u64>,
}

impl Comparison {
    pub(super) fn of(
        samples: &Samples,
        tally: &Tally,
        arm: usize,
        baseline: usize,
        clustered: bool,
    ) -> Comparison {
        let by = if clustered { By::Jobs } else { By::Ranks };
        let tables = tables(samples, tally, [arm, baseline], by);
        let none = Count { seen: 0, of: 0 };
        let sum = |a: Count, b: Count| Count { seen: a.seen + b.seen, of: a.of + b.of };
        let (slow, base) =
            tables.iter().fold((none, none), |(one, other), (a, b)| (sum(one, *a), sum(other, *b)));
        let chance = match tables.as_slice() {
            [(one, other)] => Chance::of(*one, *other),
            many => Chance::within(many.iter().copied()),
        };
        let p = chance.at_least(slow.seen);
        let proven = p <= LEVEL;
        Comparison {
            arm: samples.arms[arm].name.clone(),
            by,
            slow,
            baseline: base,
            tables: tables.len(),
            p,
            p_two_sided: chance.as_unlikely(slow.seen),
            proven,
            needed: if proven { None } else { Needed::of(slow, base) },
        }
    }
}

/// The counts of two arms, for each block that has both; one table where there are no blocks.
fn tables(samples: &Samples, tally: &Tally, arms: [usize; 2], by: By) -> Vec<(Count, Count)> {
    let none = Count { seen: 0, of: 0 };
    let mut tables = BTreeMap::new();
    for (side, arm) in arms.into_iter().enumerate() {
        for (run, count) in tally.of_arm(samples, arm) {
            let table: &mut [Count; 2] = tables.entry(run.block).or_insert([none; 2]);
            let (seen, of) = match by {
                By::Ranks => (count.seen, count.of),
                By::Jobs => (u64::from(count.seen > 0), 1),
            };
            table[side].seen += seen;
            table[side].of += of;
        }
    }
    let both = tables.into_values().filter(|[one, other]| one.of > 0 && other.of > 0);
    both.map(|[one, other]| (one, other)).collect()
}

impl Needed {
    /// None where the one side has not more than the other.
    fn of(one: Count, other: Count) -> Option<Needed> {
        let (p, base) = (one.share()?, other.share()?);
        if p <= base {
            return None;
        }
        let more_slow = least_seen(one.of, other, LEVEL).map(|least| least - one.seen.min(least));
        Some(Needed {
            more_slow,
            for_80_percent: sample_size(p, base, LEVEL, 0.8),
            for_95_percent: sample_size(p, base, LEVEL, 0.95),
        })
    }
}
