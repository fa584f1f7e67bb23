//! Above what a process is slow.
//!
//! Whatever compares arms must not favour one: limits follow from jobs of all arms alike, so that a
//! job that was slow as a whole is slow in whichever arm it is.

use std::collections::HashMap;

use super::read::{RankSample, RankSamples};

/// A job of fewer processes has no middle that an outlier leaves alone.
const FEWEST: usize = 3;
/// Where so many jobs are not as quick as the median job, there is no usual speed.
const MANY: f64 = 0.25;

/// The limits of all runs.
pub(super) struct SlowLimits {
    /// By run.
    of_run: Vec<f64>,
    /// The only one, or the median one.
    pub typical: f64,
    /// How many blocks have one of their own.
    pub blocks: usize,
    /// How many of them are slow as a whole: nothing in them is as quick as the median job.
    pub slow_blocks: usize,
    /// Whether jobs are of several speeds, so that nobody can tell which is the usual one.
    pub are_of_several_speeds: bool,
}

impl SlowLimits {
    /// The median, and the threshold above it, of all jobs alike. In a block, the quickest job's
    /// median, because a machine's speed changes from block to block; of jobs of a process or two,
    /// which have no median worth the name, at least that of all jobs. None if a median is not
    /// above zero.
    pub(super) fn of(samples: &RankSamples, threshold: f64) -> Option<SlowLimits> {
        let above = |level: f64| level * (1.0 + threshold);
        let mut values = vec![Vec::new(); samples.runs.len()];
        for sample in &samples.samples {
            values[sample.run as usize].push(sample.value);
        }
        let small = values.iter().any(|values| values.len() < FEWEST);
        let levels: Vec<f64> = values.iter_mut().filter_map(|values| median(values)).collect();
        let usual = median(&mut levels.clone()).filter(|level| *level > 0.0)?;

        let mut quickest: HashMap<(usize, u64), f64> = HashMap::new();
        for (run, level) in samples.runs.iter().zip(&levels) {
            if let Some(block) = run.block {
                let least = quickest.entry(block).or_insert(*level);
                *least = least.min(*level);
            }
        }
        if quickest.values().any(|level| *level <= 0.0) {
            return None;
        }
        let slow_blocks = quickest.values().filter(|level| **level > above(usual)).count();
        let of_block = |level: f64| above(if small { level.max(usual) } else { level });
        let of_run = samples.runs.iter().map(|run| {
            let own = run.block.and_then(|block| quickest.get(&block));
            own.map_or(above(usual), |level| of_block(*level))
        });
        let mut own: Vec<f64> = quickest.values().map(|level| of_block(*level)).collect();
        let quicker = levels.iter().filter(|level| above(**level) < usual).count();
        let many = |some: usize, all: usize| some as f64 >= MANY * all as f64;
        let goes_by_usual = small || quickest.is_empty();
        Some(SlowLimits {
            of_run: of_run.collect(),
            typical: median(&mut own).unwrap_or(above(usual)),
            blocks: quickest.len(),
            slow_blocks,
            are_of_several_speeds: goes_by_usual
                && (many(quicker, levels.len())
                    || !quickest.is_empty() && many(slow_blocks, quickest.len())),
        })
    }

    pub(super) fn of_sample(&self, sample: &RankSample) -> f64 {
        self.of_run[sample.run as usize]
    }

    pub(super) fn is_slow(&self, sample: &RankSample) -> bool {
        sample.value > self.of_sample(sample)
    }
}

/// The median, or the lower one of two, so that the slow one of two is not its own limit; none of
/// nothing.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}
