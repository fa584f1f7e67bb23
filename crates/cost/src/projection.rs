//! What a start takes with other numbers of ranks.

use recording::LetGo;
use schemars::JsonSchema;
use serde::Serialize;

use crate::closed_queue::{self, USUAL};
use crate::rpc_sequence::RpcSequence;
use crate::{
    Bandwidth, ComputeSource, CostModel, PredictedWait, RecordedStart, RpcSummary, SharedChoice,
    SpreadProjection, TimeSpan,
};

/// What a recorded start takes with many ranks. Times are in seconds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Projection {
    /// What was recorded.
    pub program: String,
    /// When and why it was watched no longer, where that was before its end: what came then is not
    /// projected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub let_go: Option<LetGo>,
    /// Which directories are taken to be shared.
    pub shared: Vec<String>,
    /// How they were chosen.
    pub chosen: SharedChoice,
    /// Metadata operations of the recording that the shared filesystem serves.
    pub metadata_ops: u64,
    /// Metadata operations of the recording that something else serves.
    pub elsewhere: u64,
    /// What the start waits for the filesystem.
    pub predicted_wait: PredictedWait,
    /// How long a rank computes.
    pub compute_seconds: f64,
    /// How that is known.
    pub compute: ComputeSource,
    /// The RPCs of the first rank of a node.
    pub rpcs: RpcSummary,
    /// The RPCs of a second start on the same node, right after the first.
    pub rpcs_again: RpcSummary,
    /// The job in question.
    pub job: JobProjection,
    /// The same where negative dentries are cached as long as positive ones.
    pub job_if_negatives_cached: JobProjection,
    /// The same where there is no negative dentry cache.
    pub job_if_negatives_not_cached: JobProjection,
    /// From when on the server is the limit; none if it never is.
    pub saturation: Option<Saturation>,
    /// Other numbers of ranks, from 1 to 100,000, with as many on a node.
    pub points: Vec<JobProjection>,
    /// The same where the hot part of an image is spread first; null where the start reads none.
    pub spread: Option<SpreadProjection>,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
}

/// What a job of so many ranks takes that start at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobProjection {
    /// Ranks.
    pub ranks: u64,
    /// Nodes.
    pub nodes: u64,
    /// Metadata RPCs that the server serves.
    pub rpcs: u64,
    /// Until the last rank is through.
    pub seconds: f64,
    /// Of that, what it waits for the filesystem.
    pub predicted_wait: f64,
    /// Of that, what it waits because others wait, too.
    pub queued_seconds: f64,
    /// How long the metadata server works.
    pub server_seconds: f64,
}

/// From where on the metadata server works all the time, and each rank more takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Saturation {
    /// Ranks.
    pub ranks: f64,
    /// Nodes, with as many ranks on each as the job has.
    pub nodes: f64,
}

impl CostModel {
    /// Projects a start to this job, and to others.
    pub fn project(&self, start: &RecordedStart) -> Projection {
        let alone = self.sequence(start, 1.0);
        let at = |ranks: u64| self.project_job(start, &alone, self.job.with_ranks(ranks));
        let other = |negatives: TimeSpan| {
            let model = self.with_negatives(negatives);
            model.project_job(start, &model.sequence(start, 1.0), self.job)
        };
        let mut ranks = series();
        ranks.retain(|ranks| *ranks != self.job.ranks);
        Projection {
            program: start.program.clone(),
            let_go: start.recording.let_go().cloned(),
            shared: start.shared.roots.iter().map(|root| root.to_string_lossy().into()).collect(),
            chosen: start.chosen,
            metadata_ops: start.metadata_ops,
            elsewhere: start.elsewhere,
            predicted_wait: self.predict(start).wait,
            compute_seconds: start.compute_time().seconds(),
            compute: start.compute,
            rpcs: alone.summary,
            rpcs_again: RpcSequence::of(start, &self.profile, 1.0, true).summary,
            job: at(self.job.ranks),
            job_if_negatives_cached: other(self.profile.cache.entries),
            job_if_negatives_not_cached: other(TimeSpan::ZERO),
            saturation: self.saturation(&alone),
            points: ranks.into_iter().map(at).collect(),
            spread: None,
            assumptions: self.assumptions(start),
        }
    }

    /// The same with what becomes of it where images' hot parts are spread, each node sending at this
    /// rate.
    pub fn project_spread(&self, start: &RecordedStart, network: Bandwidth) -> Projection {
        let mut projection = self.project(start);
        let ranks: Vec<u64> = projection.points.iter().map(|point| point.ranks).collect();
        projection.spread = self.spread(start, network, &ranks);
        projection
    }

    /// Where the server's work for all ranks takes as long as one rank alone: N* = T₁ / (RPCs of a
    /// rank × service), the crossing of a closed queue's two bounds (Denning and Buzen, 'The
    /// operational analysis of queueing network models', 1978).
    fn saturation(&self, alone: &RpcSequence) -> Option<Saturation> {
        let one = closed_queue::run(alone, &self.profile, self.job.with_ranks(1), USUAL).last;
        let service = self.profile.mds.service.nanos().0 as f64 * alone.busiest(self.job);
        let (cached, own) = (alone.summary.once_a_node as f64, alone.summary.every_rank as f64);
        let on_a_node = self.job.ranks_per_node as f64;
        // On one node, then on many.
        let few = (one / service - cached) / own;
        let ranks = match few.is_finite() && few <= on_a_node {
            true => few.max(1.0),
            false => one / (service * (cached / on_a_node + own)),
        };
        ranks.is_finite().then_some(Saturation { ranks, nodes: ranks / on_a_node })
    }
}

impl Projection {
    /// All points, the job's among them, by the number of ranks.
    pub fn rows(&self) -> Vec<JobProjection> {
        let mut rows = self.points.clone();
        let at = rows.partition_point(|point| point.ranks < self.job.ranks);
        rows.insert(at, self.job);
        rows
    }
}

/// 1, 2, 5, 10, … 100,000.
fn series() -> Vec<u64> {
    let decades = (0..5).map(|power| 10u64.pow(power));
    decades.flat_map(|ten| [ten, 2 * ten, 5 * ten]).chain([100_000]).collect()
}
