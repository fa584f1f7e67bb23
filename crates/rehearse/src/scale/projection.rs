//! The answer: what a recorded start would cost so many ranks.

use recording::Nanos;
use serde::Serialize;

use super::crowd::{self, USUAL};
use super::visits::Visits;
use super::{Compute, Job, Place, Start, words};
use crate::{Profile, Span};

pub use super::visits::Asks;

/// What a recorded start would cost many ranks. Times are in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Projection {
    /// What was recorded.
    pub program: String,
    /// Which directories are taken to be shared.
    pub shared: Vec<String>,
    /// How they were chosen.
    pub chosen: Place,
    /// Metadata operations of the recording that ask them.
    pub calls: u64,
    /// Metadata operations of the recording that ask something else.
    pub elsewhere: u64,
    /// How long a rank computes.
    pub compute_seconds: f64,
    /// How that is known.
    pub compute: Compute,
    /// Bytes that a node fetches; a warm one has them. What is read through memory mappings is not
    /// seen.
    pub bytes: u64,
    /// What the first rank of a node asks.
    pub asks: Asks,
    /// What a second start on the same node asks, right after the first.
    pub asks_again: Asks,
    /// The ranks in question.
    pub job: Point,
    /// The same where 'no such file' is kept as long as what was found.
    pub job_if_kept: Point,
    /// The same where it is not kept.
    pub job_if_not_kept: Point,
    /// From when on the server is the limit; none if it never is.
    pub knee: Option<Knee>,
    /// Other numbers of ranks, from 1 to 100,000, with as many on a node.
    pub points: Vec<Point>,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
}

/// What so many ranks cost, started at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Ranks.
    pub ranks: u64,
    /// Nodes.
    pub nodes: u64,
    /// Metadata operations that the server answers.
    pub operations: u64,
    /// Until the last rank is through.
    pub seconds: f64,
    /// How much of that is waiting for others.
    pub queued_seconds: f64,
    /// How long the metadata server works.
    pub server_seconds: f64,
}

/// From where on the metadata server works all the time, and each rank more takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// Ranks.
    pub ranks: f64,
    /// Nodes, with as many ranks on each as the job has.
    pub nodes: f64,
}

/// Projects a start.
pub fn project(start: &Start, profile: &Profile, job: Job, warm: bool) -> Projection {
    let model = Model { start, profile: profile.clone(), warm };
    let alone = model.visits(1.0);
    let at = |ranks: u64| model.point(&alone, job.with_ranks(ranks));
    let mut ranks = series();
    ranks.retain(|ranks| *ranks != job.ranks);
    let again = Visits::of(start, profile, 1.0, true);
    Projection {
        program: start.program.clone(),
        shared: start.shared.roots.iter().map(|root| root.to_string_lossy().into()).collect(),
        chosen: start.place,
        calls: start.calls,
        elsewhere: start.elsewhere,
        compute_seconds: start.compute_time().seconds(),
        compute: start.compute,
        bytes: if warm { 0 } else { start.bytes() },
        asks: alone.asks,
        asks_again: again.asks,
        job: at(job.ranks),
        job_if_kept: model.with_negatives(profile.cache.entries, job),
        job_if_not_kept: model.with_negatives(Span::ZERO, job),
        knee: model.knee(&alone, job),
        points: ranks.into_iter().map(at).collect(),
        assumptions: words::assumptions(start, profile, warm),
    }
}

/// 1, 2, 5, 10, … 100,000.
fn series() -> Vec<u64> {
    let decades = (0..5).map(|power| 10u64.pow(power));
    decades.flat_map(|ten| [ten, 2 * ten, 5 * ten]).chain([100_000]).collect()
}

struct Model<'a> {
    start: &'a Start<'a>,
    profile: Profile,
    warm: bool,
}

impl Model<'_> {
    fn visits(&self, pace: f64) -> Visits {
        Visits::of(self.start, &self.profile, pace, self.warm)
    }

    fn with_negatives(&self, negatives: Span, job: Job) -> Point {
        let cache = crate::Cache { negatives, ..self.profile.cache };
        let profile = Profile { cache, ..self.profile.clone() };
        let model = Model { profile, ..*self };
        model.point(&model.visits(1.0), job)
    }

    /// What a job costs; `alone` is what one rank alone asks. In a start that takes longer than
    /// the node trusts what it has, more is asked: this is repeated until it fits.
    fn point(&self, alone: &Visits, job: Job) -> Point {
        const ROUNDS: usize = 8;
        let mut point = self.crowded(alone, job);
        let mut asks = alone.asks;
        for _ in 0..ROUNDS {
            if point.seconds < self.shortest_lifetime().seconds() {
                break;
            }
            let one = asks.operations as f64 * self.profile.latency().seconds();
            let pace = (point.seconds - self.start.compute_time().seconds()) / one;
            if pace.is_nan() || pace <= 1.0 {
                break;
            }
            let visits = self.visits(pace);
            if visits.asks == asks {
                break;
            }
            asks = visits.asks;
            point = self.crowded(&visits, job);
        }
        point
    }

    fn crowded(&self, visits: &Visits, job: Job) -> Point {
        let crowd = crowd::run(visits, &self.profile, job, USUAL);
        let one = crowd::run(visits, &self.profile, job.with_ranks(1), USUAL);
        Point {
            ranks: job.ranks,
            nodes: job.nodes(),
            operations: crowd.served,
            seconds: crowd.last / 1e9,
            queued_seconds: ((crowd.last - one.last) / 1e9).max(0.0),
            server_seconds: crowd.busy / 1e9,
        }
    }

    /// How long the node trusts what it trusts shortest, and at all.
    fn shortest_lifetime(&self) -> Nanos {
        let cache = self.profile.cache;
        let some = [cache.entries, cache.negatives].map(Span::nanos);
        some.into_iter().filter(|span| span.0 > 0).min().unwrap_or(Nanos(u64::MAX))
    }

    /// Where the server's work for all ranks takes as long as one rank alone: N* = T₁ / (what a
    /// rank asks × service), the crossing of a closed queue's two bounds (Denning and Buzen,
    /// 'The operational analysis of queueing network models', 1978).
    fn knee(&self, alone: &Visits, job: Job) -> Option<Knee> {
        let one = crowd::run(alone, &self.profile, job.with_ranks(1), USUAL).last;
        let service = self.profile.metadata.service.nanos().0 as f64;
        let (kept, own) = (alone.asks.once_a_node as f64, alone.asks.every_rank as f64);
        let on_a_node = job.ranks_per_node as f64;
        // On one node, then on many.
        let few = (one / service - kept) / own;
        let ranks = match few.is_finite() && few <= on_a_node {
            true => few.max(1.0),
            false => one / (service * (kept / on_a_node + own)),
        };
        ranks.is_finite().then_some(Knee { ranks, nodes: ranks / on_a_node })
    }
}
