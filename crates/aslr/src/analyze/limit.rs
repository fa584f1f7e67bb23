//! Above what a process is slow.

use std::collections::HashMap;

use super::read::{Sample, Samples};

/// With fewer of the baseline in a block, all of the block's processes give its median.
const FEWEST: usize = 3;

/// The limits of all runs.
pub(super) struct Limits {
    /// By run.
    of_run: Vec<f64>,
    /// The only one, or the median one.
    pub typical: f64,
    /// How many blocks have one of their own.
    pub blocks: usize,
}

impl Limits {
    /// The baseline's median, and the threshold above it: one for all, or one for each block,
    /// because a machine's speed changes from block to block. None if a median is not above zero.
    pub(super) fn of(samples: &Samples, baseline: usize, threshold: f64) -> Option<Limits> {
        let above = |median: f64| (median > 0.0).then_some(median * (1.0 + threshold));
        let overall = above(median(&mut samples.values(baseline))?)?;
        let mut of_run = vec![overall; samples.runs.len()];
        let mut of_block: HashMap<(usize, u64), (Vec<f64>, Vec<f64>)> = HashMap::new();
        for sample in &samples.samples {
            let run = samples.run(sample);
            if let Some(block) = run.block {
                let (baselines, all) = of_block.entry(block).or_default();
                all.push(sample.value);
                if run.arm == baseline {
                    baselines.push(sample.value);
                }
            }
        }
        let mut limits = HashMap::new();
        for (block, (mut baselines, mut all)) in of_block {
            let values = if baselines.len() < FEWEST { &mut all } else { &mut baselines };
            limits.insert(block, above(median(values)?)?);
        }
        for (limit, run) in of_run.iter_mut().zip(&samples.runs) {
            *limit = run.block.and_then(|block| limits.get(&block)).copied().unwrap_or(*limit);
        }
        let mut own: Vec<f64> = limits.values().copied().collect();
        let typical = median(&mut own).unwrap_or(overall);
        Some(Limits { of_run, typical, blocks: limits.len() })
    }

    pub(super) fn of_sample(&self, sample: &Sample) -> f64 {
        self.of_run[sample.run as usize]
    }

    pub(super) fn is_slow(&self, sample: &Sample) -> bool {
        sample.value > self.of_sample(sample)
    }
}

/// The median, or the upper one of two; none of nothing.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}
