//! Slow processes whose cause is known, and is not the layout: they leave before arms are compared.
//!
//! Whether one leaves follows from what is logged of it (a control loop, its repetitions, second
//! starts), and never from its arm, so that a test of those that stay is as exact as one of all.

use schemars::JsonSchema;
use serde::Serialize;

use super::cause::{Control, SlowCause};
use super::limit::SlowLimits;
use super::read::{RankSample, RankSamples};

/// Why slow processes were left out of a comparison, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExcludedSlow {
    /// What made them slow.
    pub cause: SlowCause,
    /// How many of the arm.
    pub slow: u64,
    /// How many of the baseline.
    pub baseline: u64,
}

/// What is slow, and by what.
pub(super) struct SlowCauses<'a> {
    samples: &'a RankSamples,
    limits: &'a SlowLimits,
    control: Control,
    threshold: f64,
}

impl<'a> SlowCauses<'a> {
    pub(super) fn of(samples: &'a RankSamples, limits: &'a SlowLimits, threshold: f64) -> Self {
        SlowCauses { samples, limits, control: Control::of(samples), threshold }
    }

    /// What made a slow process slow; none where it is not slow.
    pub(super) fn cause(&self, sample: &RankSample) -> Option<SlowCause> {
        if !self.limits.is_slow(sample) {
            return None;
        }
        let limit = self.limits.of_sample(sample);
        Some(self.control.cause(self.samples, sample, limit, self.threshold).0)
    }

    /// Whether a process is slow, and it may be for its layout.
    pub(super) fn is_open(&self, sample: &RankSample) -> bool {
        self.cause(sample).is_some_and(SlowCause::may_be_layout)
    }

    /// How many of two arms are left out, by cause, most first.
    pub(super) fn left_out(&self, arm: usize, baseline: usize) -> Vec<ExcludedSlow> {
        let mut left: Vec<ExcludedSlow> = Vec::new();
        for sample in &self.samples.samples {
            let side = self.samples.run(sample).arm;
            if side != arm && side != baseline {
                continue;
            }
            let Some(cause) = self.cause(sample).filter(|cause| !cause.may_be_layout()) else {
                continue;
            };
            let at = left.iter().position(|row| row.cause == cause).unwrap_or_else(|| {
                left.push(ExcludedSlow { cause, slow: 0, baseline: 0 });
                left.len() - 1
            });
            let count = if side == arm { &mut left[at].slow } else { &mut left[at].baseline };
            *count += 1;
        }
        left.sort_by_key(|row| std::cmp::Reverse(row.slow + row.baseline));
        left
    }
}
