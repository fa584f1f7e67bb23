//! The predicted wait: what a start waits for the filesystem, for one rank and for all.

use std::borrow::Cow;

use recording::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::assumptions;
use crate::closed_queue::{self, USUAL};
use crate::rpc_sequence::RpcSequence;
use crate::stretches::{FAULTS, Stretch};
use crate::wait_parts::WaitParts;
use crate::wait_terms::WaitTerms;
use crate::{
    CacheRules, CallSet, FilesystemProfile, JobProjection, JobSize, RecordedStart, TimeSpan,
};

/// A shared filesystem, and who starts on it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct CostModel {
    /// What the filesystem is like.
    pub profile: FilesystemProfile,
    /// How many ranks start at once.
    pub job: JobSize,
    /// Whether each node has had such a start before.
    pub warm: bool,
}

/// What a start, or a part of it, waits for the filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictedWait {
    /// Metadata RPCs of one rank, the first on its node.
    pub rpcs: u64,
    /// Bytes that come to a node.
    pub bytes_read: u64,
    /// Seconds that one rank waits, on a node of its own, where nobody else starts.
    pub one_rank: f64,
    /// Seconds that the last of all ranks waits.
    pub all_ranks: f64,
}

/// The predicted wait of a start, and what each of its calls has of it.
#[derive(Clone, Debug, Default)]
pub struct Prediction {
    /// Of the whole start.
    pub wait: PredictedWait,
    /// What each call has of it.
    calls: WaitParts,
    /// What page faults have of it.
    faults: PredictedWait,
}

impl Prediction {
    /// What these calls (numbers in [`recording::Recording::events`]) have of the wait. Parts of a
    /// start that share no call add up to the whole.
    pub fn of_events(&self, events: impl IntoIterator<Item = usize>) -> PredictedWait {
        let parts = events.into_iter().filter_map(|event| self.calls.of(event));
        parts.fold(PredictedWait::default(), PredictedWait::and)
    }

    /// What page faults have of the wait.
    pub fn of_faults(&self) -> PredictedWait {
        self.faults
    }
}

impl PredictedWait {
    fn and(self, other: PredictedWait) -> PredictedWait {
        PredictedWait {
            rpcs: self.rpcs + other.rpcs,
            bytes_read: self.bytes_read + other.bytes_read,
            one_rank: self.one_rank + other.one_rank,
            all_ranks: self.all_ranks + other.all_ranks,
        }
    }
}

impl CostModel {
    /// What that takes for granted, in words.
    pub fn assumptions(&self, start: &RecordedStart) -> Vec<String> {
        assumptions::of(self, start)
    }

    /// What a start waits, and each of its calls.
    pub fn predict(&self, start: &RecordedStart) -> Prediction {
        let alone = self.sequence(start, 1.0);
        let one = self.project_job(start, &alone, JobSize::ONE).predicted_wait;
        let all = self.project_job(start, &alone, self.job).predicted_wait.max(one);
        let wait = PredictedWait {
            rpcs: alone.summary.total,
            bytes_read: alone.list.iter().map(|stretch| stretch.fetched()).sum(),
            one_rank: one,
            all_ranks: all,
        };
        let (calls, faults) = self.parts(&alone, &wait);
        Prediction { wait, calls, faults }
    }

    /// What a start waits where all that it touches of mapped files is read before, one part after
    /// the other, and no page fault has anything fetched.
    pub fn predict_reading_ahead(&self, start: &RecordedStart) -> PredictedWait {
        self.predict(&start.reading_ahead()).wait
    }

    /// What a start waits without these calls (numbers in [`recording::Recording::events`]): what is
    /// computed before them, and read after them, stays.
    pub fn predict_without(&self, start: &RecordedStart, events: &CallSet) -> PredictedWait {
        self.predict(&start.without(|event| events.contains(event))).wait
    }

    /// Each call's part, and that of page faults: of one rank's wait, by how long its RPCs take alone;
    /// of what all ranks wait longer, by how long the servers work on it for all of them.
    fn parts(&self, alone: &RpcSequence, wait: &PredictedWait) -> (WaitParts, PredictedWait) {
        let sum = |part: &dyn Fn(&Stretch) -> f64| {
            alone.list.iter().map(|stretch| part(&stretch)).sum::<f64>()
        };
        let own = |stretch: &Stretch| self.time_alone(stretch);
        let demand = |stretch: &Stretch| self.demand(stretch);
        let (all_own, all_demand) = (sum(&own), sum(&demand));
        let part = |of: f64, all: f64| if all > 0.0 { of / all } else { 0.0 };
        let (mut parts, mut faults) = (WaitParts::default(), PredictedWait::default());
        let mut last: Option<(u32, PredictedWait)> = None;
        for stretch in alone.list.iter() {
            let alone = part(own(&stretch), all_own);
            let queued = if all_demand > 0.0 { part(demand(&stretch), all_demand) } else { alone };
            let one = PredictedWait {
                rpcs: u64::from(stretch.cached + stretch.own),
                bytes_read: stretch.fetched(),
                one_rank: alone * wait.one_rank,
                all_ranks: alone * wait.one_rank + queued * (wait.all_ranks - wait.one_rank),
            };
            last = match last {
                _ if stretch.event == FAULTS => {
                    faults = faults.and(one);
                    last
                }
                Some((event, part)) if event == stretch.event => Some((event, part.and(one))),
                done => {
                    done.into_iter().for_each(|(event, part)| parts.push(event, part));
                    Some((stretch.event, one))
                }
            };
        }
        last.into_iter().for_each(|(event, part)| parts.push(event, part));
        parts.settle();
        (parts, faults)
    }

    /// Nanoseconds that a stretch's RPCs and data take where nobody else starts.
    fn time_alone(&self, stretch: &Stretch) -> f64 {
        WaitTerms::of(stretch).alone_ns(&self.profile)
    }

    /// Nanoseconds that the servers work on a stretch for all ranks.
    fn demand(&self, stretch: &Stretch) -> f64 {
        let (nodes, ranks) = (self.job.nodes() as f64, self.job.ranks as f64);
        let rpcs = nodes * f64::from(stretch.cached) + ranks * f64::from(stretch.own);
        rpcs * self.profile.mds.service.nanos().0 as f64
            + nodes * self.profile.transfer_time(stretch.bytes + stretch.faulted.bytes)
    }

    pub(crate) fn sequence(&self, start: &RecordedStart, pace: f64) -> RpcSequence {
        RpcSequence::of(start, &self.profile, pace, self.warm)
    }

    /// The same filesystem with another lifetime of negative dentries.
    pub(crate) fn with_negatives(&self, negatives: TimeSpan) -> CostModel {
        let cache = CacheRules { negatives, ..self.profile.cache };
        CostModel { profile: FilesystemProfile { cache, ..self.profile.clone() }, ..*self }
    }

    /// What a job takes; `alone` are the RPCs of one rank alone. In a start that takes longer than
    /// the node trusts its cache, there are more: this is repeated until it fits.
    pub(crate) fn project_job(
        &self,
        start: &RecordedStart,
        alone: &RpcSequence,
        job: JobSize,
    ) -> JobProjection {
        self.settle(start, Cow::Borrowed(alone), job).0
    }

    /// The same, and the RPCs that fit; whether they are others than those of one rank alone.
    pub(crate) fn settle<'s>(
        &self,
        start: &RecordedStart,
        alone: Cow<'s, RpcSequence>,
        job: JobSize,
    ) -> (JobProjection, Cow<'s, RpcSequence>, bool) {
        const ROUNDS: usize = 8;
        let mut projected = self.queued(start, &alone, job);
        let (mut settled, mut is_slowed) = (alone, false);
        for _ in 0..ROUNDS {
            if projected.seconds < self.shortest_lifetime().seconds() {
                break;
            }
            let summary = settled.summary;
            let one = summary.total as f64 * self.profile.latency().seconds();
            let pace = (projected.seconds - start.compute_time().seconds()) / one;
            if pace.is_nan() || pace <= 1.0 {
                break;
            }
            // The last one is let go of first: each may be of a million RPCs.
            drop(settled);
            let sequence = self.sequence(start, pace);
            let is_same = sequence.summary == summary;
            if !is_same {
                projected = self.queued(start, &sequence, job);
                is_slowed = true;
            }
            settled = Cow::Owned(sequence);
            if is_same {
                break;
            }
        }
        (projected, settled, is_slowed)
    }

    fn queued(&self, start: &RecordedStart, sequence: &RpcSequence, job: JobSize) -> JobProjection {
        let all = closed_queue::run(sequence, &self.profile, job, USUAL);
        let one = closed_queue::run(sequence, &self.profile, job.with_ranks(1), USUAL);
        let seconds = all.last / 1e9;
        JobProjection {
            ranks: job.ranks,
            nodes: job.nodes(),
            rpcs: all.served,
            seconds,
            predicted_wait: (seconds - start.compute_time().seconds()).max(0.0),
            queued_seconds: ((all.last - one.last) / 1e9).max(0.0),
            server_seconds: all.busy / 1e9,
        }
    }

    /// How long the node trusts what it trusts shortest, and at all.
    fn shortest_lifetime(&self) -> Nanos {
        let cache = self.profile.cache;
        let some = [cache.entries, cache.negatives].map(TimeSpan::nanos);
        some.into_iter().filter(|span| span.0 > 0).min().unwrap_or(Nanos(u64::MAX))
    }
}
