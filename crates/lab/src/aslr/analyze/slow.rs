//! The slow processes, by name.

use schemars::JsonSchema;
use serde::Serialize;

use super::AnalysisOptions;
use super::cause::{Control, SlowCause};
use super::limit::SlowLimits;
use super::read::{RankSample, RankSamples};

/// A slow process. Times are in seconds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SlowRank {
    /// Its arm.
    pub arm: String,
    /// The log that tells of it; of a campaign of many nodes, one of its logs.
    pub file: String,
    /// Its job's number in the log.
    pub job: u64,
    /// Its block, in a campaign.
    pub block: Option<u64>,
    /// Its rank.
    pub rank: u32,
    /// Where it ran, if that is told.
    pub node: Option<String>,
    /// On which processor, if that is told.
    pub cpu: Option<u32>,
    /// What it took.
    pub time: f64,
    /// How many times the limit's median that is.
    pub times_median: f64,
    /// Its quickest repetition.
    pub min: f64,
    /// Its slowest.
    pub max: f64,
    /// How its repetitions vary; null where that is no number.
    pub stddev: f64,
    /// Its layout, if that is told.
    pub layout: Option<String>,
    /// What made it slow, as far as that was tested.
    pub cause: SlowCause,
    /// How that is known, or why not.
    pub why: &'static str,
}

/// The slowest processes, the slowest first, relative to their limit.
pub(super) fn named(
    samples: &RankSamples,
    limits: &SlowLimits,
    options: &AnalysisOptions,
) -> Vec<SlowRank> {
    let (threshold, most) = (options.threshold, options.most_named);
    let over = |sample: &RankSample| sample.value / limits.of_sample(sample);
    let slower = |a: &&RankSample, b: &&RankSample| over(b).total_cmp(&over(a));
    let mut slow: Vec<_> = samples.samples.iter().filter(|sample| limits.is_slow(sample)).collect();
    if slow.len() > most && most > 0 {
        slow.select_nth_unstable_by(most - 1, slower);
    }
    slow.truncate(most);
    // Stable: equals stay in the order in which they ran.
    slow.sort_by(slower);
    let control = Control::of(samples);
    let named = slow.into_iter().map(|sample| {
        let (run, details) = (samples.run(sample), samples.details(sample));
        let (cause, why) = control.cause(samples, sample, limits.of_sample(sample), threshold);
        SlowRank {
            arm: samples.arms[run.arm].name.clone(),
            file: samples.files[run.file].to_string_lossy().into_owned(),
            job: run.job,
            block: run.block.map(|(_, block)| block),
            rank: sample.rank,
            node: details.and_then(|details| details.node.as_deref()).map(str::to_owned),
            cpu: details.and_then(|details| details.cpu),
            time: sample.value,
            times_median: over(sample) * (1.0 + threshold),
            min: shortest(sample.min),
            max: shortest(sample.max),
            stddev: shortest(sample.stddev),
            layout: details.and_then(|details| details.layout.as_deref()).map(str::to_owned),
            cause,
            why,
        }
    });
    named.collect()
}

/// The double of the fewest digits that is this number: 0.1, not 0.10000000149.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}
