//! What a run, and each part of it, waits for the filesystem, by the [cost] model.

use cost::{
    CostModel, FaultedData, LeftOut, PredictedWait, Prediction, ProjectionError, RecordedStart,
};
use recording::{PathId, Recording};

use crate::findings::{OtherWait, WaitModel};
use crate::survey::{OpId, OpSurvey};
use crate::{ExplainOptions, threshold};

/// The predicted wait of a run, to be taken apart.
pub(crate) struct RunWait {
    /// What each call has of it.
    pub prediction: Prediction,
    /// On other filesystems, by name.
    others: Vec<(String, Prediction)>,
    /// How it was predicted.
    pub model: WaitModel,
    /// Why the recording does not tell what is waited for, where it does not.
    pub refused: Option<ProjectionError>,
    /// What is left out that would be felt.
    pub left_out: Option<LeftOut>,
    /// Seconds of the wait of one rank that are for data.
    pub data: f64,
    /// What page faults have of it; none where there are none.
    pub faults: Option<FaultWait>,
}

/// What page faults have of a run's wait.
pub(crate) struct FaultWait {
    /// What is fetched of each file, those with most requests first.
    pub files: Vec<(PathId, FaultedData)>,
    /// How long that is waited for.
    pub wait: PredictedWait,
    /// The same on other filesystems.
    pub others: Vec<OtherWait>,
    /// Seconds of it, of one rank, that are not waited for where the same is read before, one part
    /// after the other.
    pub avoidable: f64,
}

impl RunWait {
    /// Predicts a run's wait.
    pub(crate) fn of(recording: &Recording, options: &ExplainOptions) -> RunWait {
        let start = RecordedStart::of(recording, &options.below, None);
        let prediction = options.model.predict(&start);
        let other = |model: &CostModel| (model.profile.name.clone(), model.predict(&start));
        let others: Vec<_> = options.other_models.iter().map(other).collect();
        let refused = start.check().err();
        let profile = &options.model.profile;
        let faulted = prediction.of_faults();
        let bytes = prediction.wait.bytes_read - faulted.bytes_read;
        let all = recording.metadata_operations();
        let is_felt = |left: &LeftOut| {
            threshold::would_be_felt(left.operations, all, profile.latency().seconds())
        };
        RunWait {
            model: wait_model(&options.model, &start),
            // Where there are no operations, there is nothing to wait for.
            refused: refused.filter(|why| !matches!(why, ProjectionError::Nothing)),
            left_out: start.left_out().filter(is_felt),
            data: (profile.transfer_time(bytes) + profile.transfer_trips(bytes)) / 1e9
                + faulted.one_rank,
            faults: FaultWait::of(&start, options, &prediction, &others),
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

    /// Of these metadata operations, by their numbers among all events.
    pub(crate) fn part(&self, events: impl IntoIterator<Item = usize>) -> PredictedWait {
        self.prediction.of_events(events)
    }

    /// Of all of it, on the other filesystems.
    pub(crate) fn other_waits(&self) -> Vec<OtherWait> {
        self.others_by(|prediction| prediction.wait)
    }

    /// Of page faults: as predicted, then on the other filesystems; none where there are none.
    pub(crate) fn page_faults(&self) -> Vec<OtherWait> {
        let Some(faults) = self.faults.as_ref().filter(|_| self.refused.is_none()) else {
            return Vec::new();
        };
        let chosen = OtherWait { profile: self.model.profile.clone(), wait: faults.wait };
        std::iter::once(chosen).chain(faults.others.clone()).collect()
    }

    /// Of these metadata operations, on the other filesystems.
    pub(crate) fn other_waits_of(&self, survey: &OpSurvey, ops: &[OpId]) -> Vec<OtherWait> {
        self.others_by(|prediction| prediction.of_events(survey.events_of(ops)))
    }

    fn others_by(&self, wait: impl Fn(&Prediction) -> PredictedWait) -> Vec<OtherWait> {
        let part = |(profile, prediction): &(String, Prediction)| OtherWait {
            profile: profile.clone(),
            wait: wait(prediction),
        };
        self.others.iter().map(part).collect()
    }
}

impl FaultWait {
    fn of(
        start: &RecordedStart,
        options: &ExplainOptions,
        prediction: &Prediction,
        others: &[(String, Prediction)],
    ) -> Option<FaultWait> {
        if start.touches.is_empty() {
            return None;
        }
        let ahead = options.model.predict_reading_ahead(start);
        let other = |(profile, prediction): &(String, Prediction)| OtherWait {
            profile: profile.clone(),
            wait: prediction.of_faults(),
        };
        Some(FaultWait {
            files: ::cost::faulted_by_file(&start.touches, options.model.profile.readahead()),
            wait: prediction.of_faults(),
            others: others.iter().map(other).collect(),
            avoidable: (prediction.wait.one_rank - ahead.one_rank).max(0.0),
        })
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
        data_reads: cost::ReadsKnown::of(start.recording),
        assumptions: model.assumptions(start),
    }
}
