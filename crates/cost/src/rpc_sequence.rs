//! Which RPCs a start takes: once a node, or once a rank.

use std::hash::BuildHasher;
use std::ops::Add;

use recording::Nanos;
use rustc_hash::FxBuildHasher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::faulted::{FaultedData, Readahead};
use crate::stretches::{FAULTS, Stretch, Stretches};
use crate::{ClientCache, FilesystemProfile, JobSize, RecordedStart, Rpc, RpcKind, ServerCache};

/// What one of so many round trips at once takes of one: `becalm run` looks at what may have changed
/// in 32 threads (crates/image/src/mount/fresh.rs, crates/cure/src/calm_file/holds.rs).
const AT_ONCE: f64 = 1.0 / LOOKS_AT_ONCE as f64;
/// In so many threads `becalm run` looks at what may have changed.
pub const LOOKS_AT_ONCE: u64 = 32;

/// The RPCs of one rank, the first on its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    pub(crate) list: Stretches,
    /// Computing after the last, in nanoseconds.
    pub(crate) rest: f64,
    pub(crate) summary: RpcSummary,
    /// Of each metadata server, in one placement of directories after the other: RPCs once a node, and of
    /// every rank. One alone needs no list.
    pub(crate) on_servers: Vec<(u64, u64)>,
}

/// In so many ways directories are placed on servers. One alone can have more on the busiest of three
/// than another on the busiest of two.
const PLACEMENTS: usize = 63;

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
            let servers = profile.metadata_servers.max(1) as usize;
            let latency = profile.latency().0 as f64 * pace;
            RpcSequence::replay(
                start,
                (&mut node, server),
                &mut at,
                latency,
                (fetches, profile.readahead()),
                servers,
            )
        };
        let first = replay(true);
        // Data that was read stays on the node.
        if warm { replay(false) } else { first }
    }

    /// The part of all RPCs of a job that the busiest metadata server has: the median of the placements.
    pub(crate) fn busiest(&self, job: JobSize) -> f64 {
        let (nodes, ranks) = (job.nodes() as f64, job.ranks as f64);
        let servers = (self.on_servers.len() / PLACEMENTS).max(1);
        let part = |placed: &[(u64, u64)]| {
            let work =
                placed.iter().map(|(cached, own)| *cached as f64 * nodes + *own as f64 * ranks);
            let (all, most) =
                work.fold((0.0, 0.0), |(all, most): (f64, f64), one| (all + one, most.max(one)));
            if all > 0.0 { most / all } else { 1.0 }
        };
        let mut parts: Vec<f64> = self.on_servers.chunks(servers).map(part).collect();
        parts.sort_unstable_by(f64::total_cmp);
        parts.get(parts.len() / 2).copied().unwrap_or(1.0)
    }

    fn replay(
        start: &RecordedStart,
        (node, mut server): (&mut ClientCache, ServerCache),
        at: &mut f64,
        latency: f64,
        (fetches, window): (bool, u64),
        servers: usize,
    ) -> RpcSequence {
        let list = Stretches::with_room(start.steps.len());
        let rest = start.rest.0 as f64;
        let mut sequence = RpcSequence { list, rest, ..RpcSequence::default() };
        sequence.on_servers = vec![(0, 0); if servers > 1 { servers * PLACEMENTS } else { 0 }];
        let mut think = 0.0;
        let (mut ahead, mut touched) = (Readahead::new(window), 0);
        for step in start.steps.iter(start.recording) {
            let event = step.event;
            think += step.think.0 as f64;
            *at += step.think.0 as f64;
            let mut waited = 0.0;
            node.each_rpc(Nanos(*at as u64), &step.request, |rpc| {
                sequence.summary.add(rpc.kind, rpc.enoent, rpc.cached);
                let (cached, own) = if rpc.cached { (1, 0) } else { (0, 1) };
                if servers > 1 {
                    let directory = hash_of_directory(&rpc);
                    for (number, placed) in sequence.on_servers.chunks_mut(servers).enumerate() {
                        let of = &mut placed[server_of(directory, number, servers)];
                        of.0 += u64::from(cached);
                        of.1 += u64::from(own);
                    }
                }
                let disk = server.read_for_rpc(&rpc).0 as f64;
                let beside = if rpc.cached && step.is_at_once { 1.0 - AT_ONCE } else { 0.0 };
                waited += 1.0 - beside;
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
            *at += latency * waited;
            let Some(data) = step.fetched.filter(|_| fetches) else { continue };
            if data.bytes > 0 {
                let bytes = data.bytes;
                let disk = data.read.iter().map(|file| server.read_for_data(file).0 as f64).sum();
                sequence.list.push(Stretch { event, think, bytes, disk, ..Stretch::default() });
                think = 0.0;
            }
            let touches = &start.touches[touched..data.touched_to.max(touched)];
            touched = data.touched_to.max(touched);
            if !touches.is_empty() {
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
}

/// A number of the directory that an RPC is about: the one which the name is in, or which is listed.
fn hash_of_directory(rpc: &Rpc) -> u64 {
    let end = rpc.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let directory = if rpc.kind == RpcKind::List { rpc.path } else { &rpc.path[..end] };
    FxBuildHasher.hash_one(directory)
}

/// Which metadata server has a directory in one of the placements. Where directories are, is as good as by
/// chance, and the same each time.
fn server_of(directory: u64, placement: usize, servers: usize) -> usize {
    // The end of SplitMix64: the placements must not be alike, as those of a weaker hash are.
    let mut mixed = directory ^ (placement as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 32) as usize % servers
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
