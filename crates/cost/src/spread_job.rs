//! A job in which one node reads an image's hot part, and brings it to the others before they start.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bandwidth, CostModel, JobSize, RecordedStart};

/// A start whose image's hot part is spread first (`becalm image spread`). Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SpreadProjection {
    /// Bytes of files in images that the start reads: what is spread.
    pub bytes: u64,
    /// How long one node reads them from the shared filesystem.
    pub read_seconds: f64,
    /// The job's.
    pub job: SpreadWait,
    /// Other numbers of ranks, in the same order as the projection's points.
    pub points: Vec<SpreadWait>,
}

/// What that takes with so many ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SpreadWait {
    /// Ranks.
    pub ranks: u64,
    /// How long the bytes go from node to node: those that have them double, until all do.
    pub broadcast_seconds: f64,
    /// All that the last rank waits: reading, the broadcast, and what the start then waits for.
    pub wait_seconds: f64,
}

impl SpreadProjection {
    /// What so many ranks take, if they are the job's or one of the points.
    pub fn of_ranks(&self, ranks: u64) -> Option<SpreadWait> {
        [self.job].into_iter().chain(self.points.iter().copied()).find(|it| it.ranks == ranks)
    }
}

impl CostModel {
    /// The job, and the same with these numbers of ranks, where what the start reads of images is
    /// spread before, each node sending at this rate. None where no image is read.
    pub fn spread(
        &self,
        start: &RecordedStart,
        network: Bandwidth,
        ranks: &[u64],
    ) -> Option<SpreadProjection> {
        let bytes = start.image_bytes();
        // A warm node has read them before.
        if bytes == 0 || self.warm {
            return None;
        }
        let without = start.spread();
        let alone = self.sequence(&without, 1.0);
        let profile = &self.profile;
        let read_seconds = (profile.transfer_time(bytes) + profile.transfer_trips(bytes)) / 1e9;
        let with = |job: JobSize| {
            let rounds = f64::from(job.nodes().max(1).next_power_of_two().ilog2());
            let broadcast_seconds = rounds * network.time_for(bytes).seconds();
            let then = self.project_job(&without, &alone, job).predicted_wait;
            let wait_seconds = read_seconds + broadcast_seconds + then;
            SpreadWait { ranks: job.ranks, broadcast_seconds, wait_seconds }
        };
        let points = ranks.iter().map(|ranks| with(self.job.with_ranks(*ranks))).collect();
        Some(SpreadProjection { bytes, read_seconds, job: with(self.job), points })
    }
}
