//! What a run, and each part of it, waits for the filesystem, by the [cost] model.

use cost::{CostModel, PredictedWait, Prediction, RecordedStart};
use recording::Recording;

use crate::ExplainOptions;
use crate::findings::WaitModel;
use crate::survey::OpId;

/// The predicted wait of a run, to be taken apart.
pub(crate) struct RunWait {
    prediction: Prediction,
    /// Of each metadata operation, its number among all events.
    events: Vec<usize>,
    /// How it was predicted.
    pub model: WaitModel,
}

impl RunWait {
    /// Predicts a run's wait.
    pub(crate) fn of(recording: &Recording, options: &ExplainOptions) -> RunWait {
        let start = RecordedStart::of(recording, &options.below, None);
        let events = recording.events.iter().enumerate();
        let events = events.filter(|(_, event)| event.is_metadata()).map(|(number, _)| number);
        RunWait {
            prediction: options.model.predict(&start),
            events: events.collect(),
            model: wait_model(&options.model, &start),
        }
    }

    /// Of all of it.
    pub(crate) fn whole(&self) -> PredictedWait {
        self.prediction.wait
    }

    /// Of these metadata operations.
    pub(crate) fn part(&self, ops: impl IntoIterator<Item = OpId>) -> PredictedWait {
        self.prediction.of_events(ops.into_iter().map(|op| self.events[op]))
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
        assumptions: model.assumptions(start),
    }
}
