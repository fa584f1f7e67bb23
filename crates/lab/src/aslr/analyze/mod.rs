//! What logs of many processes prove.
//!
//! A mean says nothing about one slow process in thousands, so those are counted: each process
//! that took longer than a fixed limit, and those with another known cause than the layout are left
//! out where arms are compared. Processes of a job share its fate, so jobs are counted, and
//! compared by Fisher's exact test, within blocks where there are blocks.
//!
//! | file | what it holds |
//! |---|---|
//! | `read/` | logs of three forms, in little memory |
//! | `limit` | above what a process is slow |
//! | `count` | how many are, how sure that is, and whether they come in clusters |
//! | `doubt` | why nothing can be told, where that is so |
//! | `compare` | whether an arm has more than another, and what a conclusion takes |
//! | `slow` | the slow ones, by name |
//! | `explained` | which of them have another cause than the layout, and leave |
//! | `cause` | what made one slow, as far as that was tested |
//! | `bits` | whether slow ones share a bit of an address |
//! | `plot/` | every process as a mark, and the tails of the arms |

mod bits;
mod cause;
mod compare;
mod count;
mod doubt;
mod explained;
mod limit;
mod plot;
mod read;
mod slow;

use crate::ministat::DataSet;
use schemars::JsonSchema;
use serde::Serialize;

pub use bits::{Bit, Bits};
pub use cause::SlowCause;
pub use compare::{ArmComparison, ComparedUnit, NeededRuns};
pub use count::{ArmCount, Clusters, Risk};
pub use doubt::Doubt;
pub use explained::ExcludedSlow;
pub use read::{
    Input, LogReadError, LogTrouble, MOST_DETAILS, MOST_SAMPLES, RankSamples, Statistic,
};
pub use slow::SlowRank;

use explained::SlowCauses;
use limit::SlowLimits;
pub(crate) use limit::median;
pub(crate) use read::published;

/// How sure an interval is.
pub const CONFIDENCE: f64 = 0.95;
/// How often a test may be wrong where there is nothing.
pub const LEVEL: f64 = 0.05;

/// What to ask of the samples.
#[derive(Clone, Copy, Debug)]
pub struct AnalysisOptions {
    /// Slow is what takes longer than the median by this share: 0.1 is 10 %.
    pub threshold: f64,
    /// How many ranks a job has whose risk is told.
    pub ranks: u64,
    /// How many slow ranks to name.
    pub most_named: usize,
}

/// What the samples answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Analysis {
    /// Whether an arm has more slow processes than the baseline; null where there is only one arm.
    pub proven: Option<bool>,
    /// What that comes to; null where there is only one arm.
    pub verdict: Option<AslrVerdict>,
    /// Slow is what takes longer than the median by this share.
    pub threshold: f64,
    /// Whose median: the baseline's name.
    pub baseline: String,
    /// The limit, in seconds; the median of the blocks' limits where there are blocks.
    pub limit: f64,
    /// Why nothing can be told of the arms, where that is so: then nothing is proven.
    pub doubt: Option<Doubt>,
    /// In how many blocks samples were compared; 0: in none.
    pub blocks: usize,
    /// How many of these are slow as a whole: nothing in them is as quick as the median job.
    pub slow_blocks: usize,
    /// How many ranks the job has whose risk is told.
    pub ranks: u64,
    /// The arms, in the order in which they were read.
    pub arms: Vec<ArmCount>,
    /// Each arm against the baseline.
    pub comparisons: Vec<ArmComparison>,
    /// How slow processes follow each other.
    pub clusters: Option<Clusters>,
    /// How many are slow.
    pub slow: u64,
    /// The slowest of them.
    pub slow_ranks: Vec<SlowRank>,
    /// Whether slow ones share a bit of an address; none where the logs tell no addresses, or no
    /// blocks.
    pub bits: Option<Bits>,
}

/// What the comparison of the arms comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AslrVerdict {
    /// An arm has more slow processes, whose cause may be the layout.
    Proven,
    /// None has, as far as that is proven.
    NotProven,
    /// An arm has more, but of those that have another known cause than the layout.
    Confounded,
    /// Nothing can be told: see `doubt`.
    CannotBeTold,
}

impl AslrVerdict {
    fn of(doubt: Option<Doubt>, comparisons: &[ArmComparison]) -> Option<AslrVerdict> {
        let any = |is: fn(&ArmComparison) -> bool| comparisons.iter().any(is);
        (!comparisons.is_empty()).then(|| match doubt {
            Some(_) => AslrVerdict::CannotBeTold,
            None if any(|comparison| comparison.proven) => AslrVerdict::Proven,
            None if any(|comparison| comparison.confounded) => AslrVerdict::Confounded,
            None => AslrVerdict::NotProven,
        })
    }
}

/// Samples that cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum AnalyzeError {
    /// A limit relative to such a median would be none.
    #[error("the median of '{0}' is not above zero: these are no times")]
    NoTimes(String),
}

/// Judges samples.
///
/// # Errors
/// If they are no times.
pub fn analyze(samples: &RankSamples, options: &AnalysisOptions) -> Result<Analysis, AnalyzeError> {
    let baseline = baseline(samples);
    let limits = SlowLimits::of(samples, options.threshold)
        .ok_or_else(|| AnalyzeError::NoTimes(samples.arms[baseline].name.clone()))?;
    let causes = SlowCauses::of(samples, &limits, options.threshold);
    let tally = count::SlowTally::of(samples, |sample| limits.is_slow(sample));
    let open = count::SlowTally::of(samples, |sample| causes.is_open(sample));
    let clusters = Clusters::of(samples, &limits);
    let clustered = clusters.is_some_and(|clusters| clusters.clustered);
    let arms = (0..samples.arms.len())
        .filter_map(|arm| ArmCount::of(samples, arm, &tally, options.ranks))
        .collect();
    let mut comparisons: Vec<_> = (0..samples.arms.len())
        .filter(|arm| *arm != baseline)
        .map(|arm| {
            let of = |tally| ArmComparison::of(samples, tally, arm, baseline, clustered);
            let (comparison, left_out) = (of(&open), causes.left_out(arm, baseline));
            match left_out.is_empty() {
                true => comparison,
                false => comparison.beside(&of(&tally), left_out),
            }
        })
        .collect();
    let doubt = doubt::doubt(&limits, &tally, samples, baseline, &comparisons);
    if doubt.is_some() {
        comparisons.iter_mut().for_each(|comparison| {
            (comparison.proven, comparison.confounded) = (false, false);
        });
    }
    let is_proven = || comparisons.iter().any(|comparison| comparison.proven);
    Ok(Analysis {
        proven: (!comparisons.is_empty()).then(is_proven),
        verdict: AslrVerdict::of(doubt, &comparisons),
        threshold: options.threshold,
        baseline: samples.arms[baseline].name.clone(),
        limit: limits.typical,
        doubt,
        blocks: limits.blocks,
        slow_blocks: limits.slow_blocks,
        ranks: options.ranks,
        arms,
        comparisons,
        clusters,
        slow: tally.slow(),
        slow_ranks: slow::named(samples, &limits, options),
        bits: Bits::of(samples, &causes),
    })
}

/// The arm that others are compared with: `off`, or else the first.
fn baseline(samples: &RankSamples) -> usize {
    samples.arms.iter().position(|arm| arm.name == "off").unwrap_or(0)
}

/// The arms as ministat takes them: those of three values and more. A set that is one file has
/// that file's name, as ministat would call it.
pub fn data_sets(samples: &RankSamples, by_file: bool) -> Vec<DataSet> {
    let sets = samples.arms.iter().enumerate().filter_map(|(number, arm)| {
        let name = match arm.files.as_slice() {
            [file] if by_file => samples.files[*file].to_string_lossy().into_owned(),
            _ => arm.name.clone(),
        };
        DataSet::new(&name, samples.values(number))
    });
    sets.collect()
}

/// Every process as a mark in the strip of its arm, as SVG.
pub fn strip_plot(samples: &RankSamples, analysis: &Analysis) -> String {
    plot::strip(samples, analysis)
}

/// Which share of each arm took longer than a time, both on logarithmic scales, as SVG: what is
/// rare is as visible as what is not.
pub fn tail_plot(samples: &RankSamples, analysis: &Analysis) -> String {
    plot::tail(samples, analysis)
}
