//! What a run, and each part of it, waits for the filesystem, by the [cost] model.

use cost::{CostModel, LeftOut, PredictedWait, Prediction, ProjectionError, RecordedStart};
use recording::Recording;

use crate::findings::{OtherWait, WaitModel};
use crate::survey::OpId;
use crate::{ExplainOptions, threshold};

/// The predicted wait of a run, to be taken apart.
pub(crate) struct RunWait {
    prediction: Prediction,
    /// On other filesystems, by name.
    others: Vec<(String, Prediction)>,
    /// Of each metadata operation, its number among all events.
    events: Vec<usize>,
    /// How it was predicted.
    pub model: WaitModel,
    /// Why the recording does not tell what is waited for, where it does not.
    pub refused: Option<ProjectionError>,
    /// What is left out that would be felt.
    pub left_out: Option<LeftOut>,
    /// Seconds of the wait of one rank that are for data.
    pub data: f64,
}

impl RunWait {
    /// Predicts a run's wait.
    pub(crate) fn of(recording: &Recording, options: &ExplainOptions) -> RunWait {
        let start = RecordedStart::of(recording, &options.below, None);
        let events = recording.events.iter().enumerate();
        let events = events.filter(|(_, event)| event.is_metadata()).map(|(number, _)| number);
        let prediction = options.model.predict(&start);
        let other = |model: &CostModel| (model.profile.name.clone(), model.predict(&start));
        let others = options.other_models.iter().map(other).collect();
        let refused = start.check().err();
        let profile = &options.model.profile;
        let bytes = prediction.wait.bytes_read;
        let all = recording.metadata_operations();
        let is_felt = |left: &LeftOut| {
            threshold::would_be_felt(left.operations, all, profile.latency().seconds())
        };
        RunWait {
            events: events.collect(),
            model: wait_model(&options.model, &start),
            // Where there are no operations, there is nothing to wait for.
            refused: refused.filter(|why| !matches!(why, ProjectionError::Nothing)),
            left_out: start.left_out().filter(is_felt),
            data: (profile.transfer_time(bytes) + profile.transfer_trips(bytes)) / 1e9,
            prediction,
            others,
        }
    }

    /// Of all of it, where the recording tells.
    pub(crate) fn told(&self) -> Option<PredictedWait> {
        self.refused.is_none().then_some(self.prediction.wait)
    }

    /// Of all of it.
    pub(crate) fn whole(&self) -> PredictedWait {
        self.prediction.wait
    }

    /// Of these metadata operations.
    pub(crate) fn part(&self, ops: impl IntoIterator<Item = OpId>) -> PredictedWait {
        self.prediction.of_events(ops.into_iter().map(|op| self.events[op]))
    }

    /// Of these metadata operations, or of all of it, on the other filesystems.
    pub(crate) fn other_waits(&self, ops: Option<&[OpId]>) -> Vec<OtherWait> {
        let events = |ops: &[OpId]| ops.iter().map(|op| self.events[*op]).collect::<Vec<_>>();
        let part = |(profile, prediction): &(String, Prediction)| OtherWait {
            profile: profile.clone(),
            wait: ops.map_or(prediction.wait, |ops| prediction.of_events(events(ops))),
        };
        self.others.iter().map(part).collect()
    }
}

fn wait_model(model: &CostModel, start: &RecordedStart) -> WaitModel {
    let profile = &model.profile;
    WaitModel {
        profile: profile.name.clone(),
        metadata_latency: profile.latency().seconds(),
        mds_ops_per_second: profile.ops_per_second(),
        negative_dentry_cache: profile.cache.negatives > cost::TimeSpan::ZERO,
        ranks: model.job.ranks,
        ranks_per_node: model.job.ranks_per_node,
        nodes: model.job.nodes(),
        warm: model.warm,
        cold_server: profile.cold_server,
        reads: cost::ReadsKnown::of(start.recording),
        assumptions: model.assumptions(start),
    }
}
