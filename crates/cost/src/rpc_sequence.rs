//! Which RPCs a start takes: once a node, or once a rank.

use std::ops::Add;

use recording::Nanos;
use serde::{Deserialize, Serialize};

use crate::faulted::{FaultedData, Readahead};
use crate::{ClientCache, FilesystemProfile, RecordedStart, RpcKind, ServerCache};

/// What one of so many round trips at once takes of one: `becalm run` looks at what may have changed
/// in 32 threads (crates/image/src/mount/fresh.rs, crates/cure/src/calm_file/holds.rs).
const AT_ONCE: f64 = 1.0 / LOOKS_AT_ONCE as f64;
/// In so many threads `becalm run` looks at what may have changed.
pub const LOOKS_AT_ONCE: u64 = 32;

/// The number that stands for page faults where calls have theirs.
pub(crate) const FAULTS: usize = u32::MAX as usize;

/// A stretch of a rank's start: it computes, then waits for RPCs, then reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stretch {
    /// The call that takes the RPCs, in the recording; of several calls, the first.
    pub(crate) event: usize,
    /// Computing, in nanoseconds.
    pub(crate) think: f64,
    /// RPCs whose results the node caches: the first of its ranks sends them.
    pub(crate) cached: u32,
    /// RPCs that each rank sends.
    pub(crate) own: u32,
    /// Of the round trips of the cached ones, those that nobody waits for: they are sent while
    /// others are on their way.
    pub(crate) beside: f64,
    /// Bytes that come to the node once.
    pub(crate) bytes: u64,
    /// Those that page faults bring, likewise, in requests of their own.
    pub(crate) faulted: FaultedData,
    /// Nanoseconds that a cold server's disk takes, once for all nodes.
    pub(crate) disk: f64,
}

impl Stretch {
    /// Bytes that come to the node, whatever brings them.
    pub(crate) fn fetched(&self) -> u64 {
        self.bytes + self.faulted.bytes
    }
}

/// The RPCs of one rank, the first on its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcSummary {
    /// All metadata RPCs.
    pub total: u64,
    /// Those that one rank sends for its whole node.
    pub once_a_node: u64,
    /// Those that every rank sends.
    pub every_rank: u64,
    /// Names that were looked up.
    pub lookups: u64,
    /// RPCs that ended with ENOENT.
    pub enoent: u64,
    /// Opens.
    pub opens: u64,
    /// Parts of directories' listings.
    pub lists: u64,
    /// Anything else.
    pub others: u64,
}

/// A start, as the server sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RpcSequence {
    pub(crate) list: Vec<Stretch>,
    /// Computing after the last, in nanoseconds.
    pub(crate) rest: f64,
    pub(crate) summary: RpcSummary,
}

impl RpcSequence {
    /// The RPCs where a node caches what the profile says. `pace` is how many times longer than
    /// alone an operation takes: what is cached for 30 s is looked up again in a start that takes
    /// longer. A warm client has had one such start.
    pub(crate) fn of(
        start: &RecordedStart,
        profile: &FilesystemProfile,
        pace: f64,
        warm: bool,
    ) -> RpcSequence {
        let mut node = ClientCache::new(profile, start.shared.clone());
        let mut at = 0.0;
        let mut replay = |fetches| {
            // What a warm node has had before, a cold server has forgotten since.
            let server = ServerCache::new(profile);
            let latency = profile.latency().0 as f64 * pace;
            RpcSequence::replay(
                start,
                (&mut node, server),
                &mut at,
                latency,
                (fetches, profile.readahead()),
            )
        };
        let first = replay(true);
        // Data that was read stays on the node.
        if warm { replay(false) } else { first }
    }

    fn replay(
        start: &RecordedStart,
        (node, mut server): (&mut ClientCache, ServerCache),
        at: &mut f64,
        latency: f64,
        (fetches, window): (bool, u64),
    ) -> RpcSequence {
        let mut sequence = RpcSequence { rest: start.rest.0 as f64, ..RpcSequence::default() };
        let mut think = 0.0;
        let (mut ahead, mut touched) = (Readahead::new(window), 0);
        for step in &start.steps {
            let event = step.event;
            think += step.think.0 as f64;
            *at += step.think.0 as f64;
            let before = sequence.list.len();
            node.each_rpc(Nanos(*at as u64), &step.request, |rpc| {
                sequence.summary.add(rpc.kind, rpc.enoent, rpc.cached);
                let (cached, own) = if rpc.cached { (1, 0) } else { (0, 1) };
                let disk = server.read_for_rpc(&rpc).0 as f64;
                let beside = if rpc.cached && step.is_at_once { 1.0 - AT_ONCE } else { 0.0 };
                sequence.list.push(Stretch {
                    event,
                    think,
                    cached,
                    own,
                    beside,
                    disk,
                    ..Stretch::default()
                });
                think = 0.0;
            });
            let waited = sequence.list[before..].iter().map(|stretch| 1.0 - stretch.beside);
            *at += latency * waited.sum::<f64>();
            if fetches && step.bytes > 0 {
                let bytes = step.bytes;
                let disk = step.read.iter().map(|file| server.read_for_data(file).0 as f64).sum();
                sequence.list.push(Stretch { event, think, bytes, disk, ..Stretch::default() });
                think = 0.0;
            }
            let touches = &start.touches[touched..step.touched_to.max(touched)];
            touched = step.touched_to.max(touched);
            if fetches && !touches.is_empty() {
                let faults = touches.iter().map(|touch| ahead.touch(touch));
                let mut faulted = faults.fold(FaultedData::default(), Add::add);
                let mut bytes = 0;
                if start.reads_ahead {
                    bytes = touches.iter().map(|touch| touch.range.bytes).sum();
                    faulted = FaultedData::default();
                }
                let disk = server.read_for_faults(faulted.requests);
                let event = FAULTS;
                sequence.list.push(Stretch {
                    event,
                    think,
                    bytes,
                    faulted,
                    disk,
                    ..Stretch::default()
                });
                think = 0.0;
            }
        }
        sequence.rest += think;
        sequence
    }

    /// The same in at most so many stretches.
    pub(crate) fn in_at_most(&self, most: usize) -> RpcSequence {
        let together = self.list.len().div_ceil(most.max(1)).max(1);
        let merged = |part: &[Stretch]| {
            let first = part.first().copied().unwrap_or_default();
            part.iter().skip(1).fold(first, |sum, stretch| Stretch {
                event: sum.event,
                think: sum.think + stretch.think,
                cached: sum.cached + stretch.cached,
                own: sum.own + stretch.own,
                beside: sum.beside + stretch.beside,
                bytes: sum.bytes + stretch.bytes,
                faulted: sum.faulted + stretch.faulted,
                disk: sum.disk + stretch.disk,
            })
        };
        RpcSequence { list: self.list.chunks(together).map(merged).collect(), ..*self }
    }
}

impl RpcSummary {
    fn add(&mut self, kind: RpcKind, enoent: bool, cached: bool) {
        self.total += 1;
        self.enoent += u64::from(enoent);
        *if cached { &mut self.once_a_node } else { &mut self.every_rank } += 1;
        *match kind {
            RpcKind::Lookup => &mut self.lookups,
            RpcKind::Open => &mut self.opens,
            RpcKind::List => &mut self.lists,
            _ => &mut self.others,
        } += 1;
    }
}
