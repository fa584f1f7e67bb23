//! What made a process slow, as far as that was tested. A layout is never blamed without a
//! second start that shows it.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::limit::median;
use super::read::{Details, RankSample, RankSamples};
use crate::aslr::log::RetestChange;

/// What made a process slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlowCause {
    /// The processor's frequency, or a neighbour: what knows no layout was slow as well.
    Machine,
    /// Something that passed while it ran.
    Passing,
    /// Something that did not come again.
    NotRepeated,
    /// Dirty upper halves of vector registers.
    DirtyUpper,
    /// The processor that it ran on.
    Cpu,
    /// Its environment.
    Environment,
    /// Its layout.
    Layout,
    /// Not known.
    Unknown,
}

impl SlowCause {
    /// Whether the layout may have done it: nothing else is known to have.
    pub(super) fn may_be_layout(self) -> bool {
        matches!(self, SlowCause::Layout | SlowCause::Unknown)
    }
}

/// What the control loop usually takes, by campaign and block.
pub(super) struct Control {
    medians: HashMap<Option<(usize, u64)>, f64>,
}

impl Control {
    pub(super) fn of(samples: &RankSamples) -> Control {
        let mut of_block: HashMap<_, Vec<f64>> = HashMap::new();
        for sample in &samples.samples {
            if let Some(control) = samples.details(sample).and_then(|details| details.control) {
                of_block.entry(samples.run(sample).block).or_default().push(control);
            }
        }
        let medians = of_block.into_iter();
        let medians = medians.filter_map(|(block, mut all)| Some((block, median(&mut all)?)));
        Control { medians: medians.collect() }
    }
}

impl Control {
    /// What made a process slow that took longer than `limit`, and how that is known.
    pub(super) fn cause(
        &self,
        samples: &RankSamples,
        sample: &RankSample,
        limit: f64,
        threshold: f64,
    ) -> (SlowCause, &'static str) {
        let details = samples.details(sample);
        let usual = self.medians.get(&samples.run(sample).block);
        let control = details.and_then(|details| details.control);
        if let (Some(control), Some(usual)) = (control, usual) {
            // Half of what makes a process slow is enough to doubt it.
            if *usual > 0.0 && control > usual * (1.0 + threshold / 2.0) {
                return (
                    SlowCause::Machine,
                    "the control loop, which has no layout, was slow, too",
                );
            }
        }
        let waited = details.and_then(|details| details.waited);
        if waited.is_some_and(|waited| sample.value - waited <= limit) {
            return (SlowCause::Machine, "it waited for a processor; without that it was fast");
        }
        // A layout stays: what is slow by it is slow in every repetition. A single one has no
        // parts.
        if sample.min < sample.max && f64::from(sample.min) <= limit {
            return (
                SlowCause::Passing,
                "it was fast in a part of its run; a layout does not change",
            );
        }
        match details {
            Some(details) => retested(details, limit),
            None => (SlowCause::Unknown, "the log tells of no control loop and no second start"),
        }
    }
}

/// What second starts say.
fn retested(details: &Details, limit: f64) -> (SlowCause, &'static str) {
    let is_slow = |changed| {
        let retests = details.retests.iter().filter(|retest| retest.changed == changed);
        retests.map(|retest| retest.avg > limit).reduce(|a, b| a && b)
    };
    match is_slow(RetestChange::Nothing) {
        Some(false) => {
            return (SlowCause::NotRepeated, "started again in the same layout, it was fast");
        }
        None if details.dirty_upper == Some(true) => {
            return (
                SlowCause::Unknown,
                "upper vector registers were dirty; whether that made it slow was not tested",
            );
        }
        None => return (SlowCause::Unknown, "it was not started again in the same layout"),
        Some(true) => {}
    }
    // In the order of how seldom each is the cause of another.
    let causes = [
        (
            RetestChange::CleanUpper,
            SlowCause::DirtyUpper,
            "with clean upper vector registers it was fast",
        ),
        (RetestChange::Cpu, SlowCause::Cpu, "on another processor it was fast"),
        (RetestChange::Environment, SlowCause::Environment, "with another environment it was fast"),
        (
            RetestChange::Layout,
            SlowCause::Layout,
            "slow again in the same layout, fast in another one",
        ),
    ];
    let found = causes.into_iter().find(|(changed, ..)| is_slow(*changed) == Some(false));
    match found {
        Some((_, cause, why)) => (cause, why),
        // A command cannot be started with clean ones; the kernel's own test is among the retests.
        None if details.dirty_upper == Some(true)
            && is_slow(RetestChange::CleanUpper).is_none() =>
        {
            (
                SlowCause::Unknown,
                "slow again, whatever was changed, and upper vector registers were dirty; whether that \
             made it slow was not tested",
            )
        }
        None => (SlowCause::Unknown, "slow again, whatever was changed"),
    }
}
