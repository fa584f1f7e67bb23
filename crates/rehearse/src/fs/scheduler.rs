//! When an RPC is answered: its place in the server's queue, what a cold server reads from its disk,
//! its line in the ledger.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recording::Nanos;

use super::pace::CallerPace;
use crate::clock;
use crate::{Ledger, MachineQueues, Served};
use cost::{DataServer, FilesystemProfile, MetadataServer, Rpc, RpcKind, ServerCache, TimeSpan};

/// Says when RPCs are answered.
#[derive(Debug)]
pub(super) struct RpcScheduler {
    metadata: MetadataServer,
    data: DataServer,
    queues: Arc<MachineQueues>,
    ledger: Arc<Ledger>,
    pace: Mutex<CallerPace>,
    memory: Mutex<ServerCache>,
    is_cold: bool,
}

/// One question, as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct RpcArrival {
    pub kind: RpcKind,
    /// The thread that asked.
    pub thread: u32,
    /// When it came (CLOCK_MONOTONIC).
    pub at: Nanos,
}

impl RpcScheduler {
    pub fn new(
        profile: &FilesystemProfile,
        queues: Arc<MachineQueues>,
        ledger: Arc<Ledger>,
    ) -> RpcScheduler {
        let (metadata, data) = (profile.mds, profile.data);
        let free = profile.latency() == Nanos(0)
            && data.round_trip == TimeSpan::ZERO
            && data.bandwidth.is_none()
            && profile.cold_disk().is_none();
        let hand_over = if free { Nanos(0) } else { clock::hand_over() };
        RpcScheduler {
            metadata,
            data,
            queues,
            ledger,
            pace: Mutex::new(CallerPace::new(hand_over)),
            memory: Mutex::new(ServerCache::new(profile)),
            is_cold: profile.cold_disk().is_some(),
        }
    }

    /// Whether reading and writing cost anything.
    pub fn data_costs(&self) -> bool {
        self.data.round_trip > TimeSpan::ZERO || self.data.bandwidth.is_some() || self.is_cold
    }

    /// Enters a metadata operation, and says when its answer may be given.
    pub fn metadata(&self, question: RpcArrival, path: &[u8], enoent: bool) -> Nanos {
        let service = self.metadata.service.nanos();
        let begins = self.queues.metadata.admit(question.at, service);
        let rpc = Rpc { kind: question.kind, path, enoent, cached: false };
        let disk = self.memory().read_for_rpc(&rpc);
        let done = Nanos(begins.0 + service.0 + self.metadata.round_trip.nanos().0 + disk.0);
        self.enter(question, path, begins, done, enoent, 0)
    }

    /// The same for a transfer of data.
    pub fn transfer(&self, question: RpcArrival, path: &[u8], bytes: u64) -> Nanos {
        let time = self.data.bandwidth.map_or(Nanos(0), |rate| rate.time_for(bytes));
        let begins = self.queues.data.admit(question.at, time);
        let disk = match question.kind {
            RpcKind::Read => self.memory().read_for_data(path),
            _ => Nanos(0),
        };
        let done = Nanos(begins.0 + time.0 + self.data.round_trip.nanos().0 + disk.0);
        self.enter(question, path, begins, done, false, bytes)
    }

    /// A request that no server would have seen.
    pub fn uncharged(&self) {
        self.ledger.enter_uncharged();
    }

    fn memory(&self) -> MutexGuard<'_, ServerCache> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(
        &self,
        question: RpcArrival,
        path: &[u8],
        begins: Nanos,
        done: Nanos,
        enoent: bool,
        bytes: u64,
    ) -> Nanos {
        let RpcArrival { kind, thread, at } = question;
        let since = |time: Nanos, start: Nanos| Nanos(time.0.saturating_sub(start.0));
        let (queued, waited) = (since(begins, at), since(done, at));
        let at = since(at, self.ledger.started());
        self.ledger
            .enter(path, Served { kind, path: 0, thread, at, queued, waited, enoent, bytes });
        if waited == Nanos(0) {
            return done;
        }
        // Whoever asked has waited for the question to come here, and will for the answer to
        // come back.
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let due = since(done, pace.asked(thread, question.at));
        pace.answers(thread, due);
        due
    }
}
