//! A predicted wait as amounts that a filesystem's speed multiplies: what a page with sliders needs
//! to work it out again for other speeds, without the recording.

use std::borrow::Cow;
use std::ops::AddAssign;

use serde::Serialize;

use crate::rpc_sequence::RpcSequence;
use crate::stretches::{FAULTS, Stretch};
use crate::{CostModel, FilesystemProfile, JobSize, PredictedWait, RecordedStart};

/// What one rank waits for, in amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WaitTerms {
    /// RPCs whose results the node caches: the first of its ranks sends them.
    pub cached: u64,
    /// RPCs that each rank sends.
    pub own: u64,
    /// Of the round trips of the cached ones, those that nobody waits for.
    pub beside: f64,
    /// Bytes that are read.
    pub bytes: u64,
    /// Transfers of up to 1 MiB that bring them.
    pub transfers: u64,
    /// Bytes that page faults bring.
    pub fault_bytes: u64,
    /// Requests that bring those, one after the other.
    pub fault_requests: u64,
    /// Nanoseconds that a cold server's disk takes.
    pub disk_ns: f64,
}

impl WaitTerms {
    pub(crate) fn of(stretch: &Stretch) -> WaitTerms {
        WaitTerms {
            cached: stretch.cached.into(),
            own: stretch.own.into(),
            beside: stretch.beside,
            bytes: stretch.bytes,
            transfers: FilesystemProfile::transfers(stretch.bytes),
            fault_bytes: stretch.faulted.bytes,
            fault_requests: stretch.faulted.requests,
            disk_ns: stretch.disk,
        }
    }

    /// Nanoseconds that all of it takes where nobody else starts.
    pub fn alone_ns(&self, profile: &FilesystemProfile) -> f64 {
        (self.cached + self.own) as f64 * profile.latency().0 as f64
            - self.beside * profile.mds.round_trip.nanos().0 as f64
            + profile.transfer_time(self.bytes)
            + self.transfers as f64 * profile.data.round_trip.nanos().0 as f64
            + profile.transfer_time(self.fault_bytes)
            + profile.fault_trips(self.fault_requests)
            + self.disk_ns
    }
}

impl AddAssign for WaitTerms {
    fn add_assign(&mut self, other: WaitTerms) {
        self.cached += other.cached;
        self.own += other.own;
        self.beside += other.beside;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.transfers += other.transfers;
        self.fault_bytes = self.fault_bytes.saturating_add(other.fault_bytes);
        self.fault_requests += other.fault_requests;
        self.disk_ns += other.disk_ns;
    }
}

/// A part of a start: it computes, then waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OutlinedStep {
    /// Nanoseconds of computing.
    pub think_ns: f64,
    /// What is waited for after it.
    pub terms: WaitTerms,
}

/// A start in few enough steps to be sent to somebody.
#[derive(Clone, Debug, Default)]
pub struct OutlinedStart {
    /// The steps, in order.
    pub steps: Vec<OutlinedStep>,
    /// Nanoseconds of computing after the last.
    pub rest_ns: f64,
}

/// A predicted wait, and what it is worked out from.
#[derive(Clone, Debug, Default)]
pub struct WaitOutline {
    /// As [`CostModel::predict`] says it.
    pub wait: PredictedWait,
    /// Nanoseconds that a rank computes.
    pub compute_ns: f64,
    /// What one rank does.
    pub alone: OutlinedStart,
    /// What each of the job's ranks does, where their start takes so long that what a node trusts
    /// for a while is looked up again; none: the same as one rank.
    pub job: Option<OutlinedStart>,
    /// What one rank waits for, by the caller's groups; the last are page faults.
    pub groups: Vec<WaitTerms>,
}

impl CostModel {
    /// What a start's wait is worked out from, in so many steps at most, and for each of so many
    /// groups of calls (by their numbers in [`recording::Recording::events`]) its own.
    pub fn outline(
        &self,
        start: &RecordedStart,
        most_steps: usize,
        groups: usize,
        mut group: impl FnMut(usize) -> usize,
    ) -> WaitOutline {
        // One sequence at a time: each may be of a million RPCs.
        let first = self.sequence(start, 1.0);
        let rpcs = first.summary.total;
        let bytes_read = first.list.iter().map(|stretch| stretch.fetched()).sum();
        let (one, alone, _) = self.settle(start, Cow::Owned(first), JobSize::ONE);
        let mut of_groups = vec![WaitTerms::default(); groups + 1];
        for stretch in alone.list.iter() {
            let number = match stretch.event {
                FAULTS => groups,
                event => group(event as usize).min(groups),
            };
            of_groups[number] += WaitTerms::of(&stretch);
        }
        let steps = outlined(&alone, most_steps);
        drop(alone);
        let first = self.sequence(start, 1.0);
        let (all, settled, is_slowed) = self.settle(start, Cow::Owned(first), self.job);
        let (one_rank, all_ranks) = (one.predicted_wait, all.predicted_wait);
        WaitOutline {
            wait: PredictedWait { rpcs, bytes_read, one_rank, all_ranks: all_ranks.max(one_rank) },
            compute_ns: start.compute_time().0 as f64,
            alone: steps,
            job: is_slowed.then(|| outlined(&settled, most_steps)),
            groups: of_groups,
        }
    }
}

/// A sequence in so many steps at most, as many stretches in each.
fn outlined(sequence: &RpcSequence, most: usize) -> OutlinedStart {
    let together = sequence.list.len().div_ceil(most.max(1)).max(1);
    let mut steps: Vec<OutlinedStep> = Vec::with_capacity(sequence.list.len().div_ceil(together));
    for (number, stretch) in sequence.list.iter().enumerate() {
        if number % together == 0 {
            steps.push(OutlinedStep::default());
        }
        let Some(step) = steps.last_mut() else { continue };
        step.think_ns += stretch.think;
        step.terms += WaitTerms::of(&stretch);
    }
    OutlinedStart { steps, rest_ns: sequence.rest }
}
