//! All ranks at once in the server's queue: a closed queue, by event simulation.
//!
//! Every rank computes, sends an RPC, waits for its reply and goes on; the server works on one at a
//! time, in the order in which they come, exactly as the queue of a rehearsal does. What a node
//! caches, the first of its ranks sends for; those that come while it waits wait for the same reply
//! (the kernel's `d_alloc_parallel`, `fs/dcache.c`), later ones find it cached.
//!
//! More than [`GROUPS`] ranks are put together into groups that move as one: a group's
//! operation occupies the server once for each member (of several metadata servers, the busiest for
//! its part of them), and its first member goes on as soon as
//! its own is served. That keeps both limits of a closed queue as they are: a cycle takes
//! `round trip + service + computing` where the server is idle, and `ranks × service` where it is
//! not. What a cold server reads from its disk, the first of all ranks waits for, and those that ask
//! meanwhile. Likewise, long starts are cut into stretches. `closed_queue_tests.rs` holds the error of both
//! against the simulation of each rank and operation by itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::rpc_sequence::RpcSequence;
use crate::stretches::{Stretch, Stretches};
use crate::{FilesystemProfile, JobSize};

/// Groups of ranks that are simulated one by one, at most.
pub(crate) const GROUPS: usize = 64;
/// Groups on one node, at least, where there are as many ranks.
const ON_A_NODE: u64 = 8;
/// Groups times stretches, at most.
pub(crate) const WORK: usize = 500_000;

/// What became of the ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QueueResult {
    /// When the last rank is through, in nanoseconds.
    pub(crate) last: f64,
    /// How long the server worked on metadata.
    pub(crate) busy: f64,
    /// RPCs that it served.
    pub(crate) served: u64,
}

/// How fine the simulation is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granularity {
    pub(crate) rank_groups: usize,
    pub(crate) work: usize,
}

/// As fine as a screen of numbers can wait for.
pub(crate) const USUAL: Granularity = Granularity { rank_groups: GROUPS, work: WORK };

/// Ranks that move as one.
struct RankGroup {
    /// Its group of nodes.
    node: usize,
    /// How many ranks.
    ranks: f64,
    /// At which stretch it is.
    stretch: usize,
    phase: RankPhase,
}

#[derive(Clone, Copy, PartialEq)]
enum RankPhase {
    Compute,
    Cached,
    Own,
    DataServer,
}

/// A server that works on one thing at a time.
struct ServerQueue {
    free: f64,
    busy: f64,
}

impl ServerQueue {
    /// Works on something that came at `at` and takes `all`; its first part, `first`, is what
    /// whoever came first waits for. When that is done.
    fn serve(&mut self, at: f64, first: f64, all: f64) -> f64 {
        let begins = self.free.max(at);
        self.free = begins + all;
        self.busy += all;
        begins + first
    }
}

/// A group of nodes that move as one.
struct NodeGroup {
    nodes: f64,
    /// When what it caches of each stretch came: metadata and data. NAN: nobody has sent for it.
    cached: Vec<f64>,
    data: Vec<f64>,
}

struct ClosedQueue<'a> {
    stretches: JoinedStretches<'a>,
    profile: &'a FilesystemProfile,
    metadata: ServerQueue,
    transfer: ServerQueue,
    groups: Vec<NodeGroup>,
    /// The part of the work that the busiest metadata server has.
    busiest: f64,
    /// When a cold server has read from its disk what a stretch is about. NAN: nobody has asked.
    read: Vec<f64>,
}

/// Starts all ranks of a job at the same moment.
pub(crate) fn run(
    sequence: &RpcSequence,
    profile: &FilesystemProfile,
    job: JobSize,
    grain: Granularity,
) -> QueueResult {
    let (groups, mut rank_groups) = divide(job, grain.rank_groups);
    let most = grain.work / rank_groups.len().max(1);
    let stretches = JoinedStretches::of(&sequence.list, most, rank_groups.len());
    let all = stretches.len;
    let none = || vec![f64::NAN; all];
    let groups: Vec<NodeGroup> =
        groups.into_iter().map(|nodes| NodeGroup { nodes, cached: none(), data: none() }).collect();
    let station = || ServerQueue { free: 0.0, busy: 0.0 };
    let mut simulation = ClosedQueue {
        stretches,
        profile,
        metadata: station(),
        transfer: station(),
        groups,
        busiest: sequence.busiest(job),
        read: none(),
    };
    let mut waiting: BinaryHeap<Reverse<(SimulatedTime, usize)>> =
        (0..rank_groups.len()).map(|number| Reverse((SimulatedTime(0.0), number))).collect();
    let mut last: f64 = 0.0;
    while let Some(Reverse((SimulatedTime(mut at), number))) = waiting.pop() {
        let rank_group = &mut rank_groups[number];
        let others =
            waiting.peek().map_or(f64::INFINITY, |Reverse((SimulatedTime(next), _))| *next);
        let mut is_through = false;
        while at <= others {
            match simulation.go_on(rank_group, at) {
                Some(next) => at = next,
                None => {
                    last = last.max(at + simulation.lag(rank_group));
                    is_through = true;
                    break;
                }
            }
        }
        // Whoever waits for the data of the last stretch is not through.
        if !is_through {
            waiting.push(Reverse((SimulatedTime(at), number)));
        }
    }
    let summary = sequence.summary;
    QueueResult {
        last: last + sequence.rest,
        busy: simulation.metadata.busy,
        served: job.nodes() * summary.once_a_node + job.ranks * summary.every_rank,
    }
}

/// The stretches of a start, several as one where they are too many.
struct JoinedStretches<'a> {
    all: &'a Stretches,
    /// So many are one.
    together: usize,
    len: usize,
    /// They, where several come by; one alone sees each but once.
    joined: Vec<Stretch>,
}

impl<'a> JoinedStretches<'a> {
    fn of(all: &'a Stretches, most: usize, rank_groups: usize) -> JoinedStretches<'a> {
        let together = all.len().div_ceil(most.max(1)).max(1);
        let len = all.len().div_ceil(together);
        let mut stretches = JoinedStretches { all, together, len, joined: Vec::new() };
        if rank_groups > 1 && together > 1 {
            stretches.joined = (0..len).filter_map(|number| stretches.get(number)).collect();
        }
        stretches
    }

    fn get(&self, number: usize) -> Option<Stretch> {
        let known = self.joined.get(number).copied();
        known.or_else(|| self.all.joined(number * self.together, self.together))
    }
}

impl ClosedQueue<'_> {
    /// Takes a group of ranks through one phase of its stretch. When the next begins; none at the end.
    fn go_on(&mut self, rank_group: &mut RankGroup, at: f64) -> Option<f64> {
        let stretch = self.stretches.get(rank_group.stretch)?;
        let service = self.profile.mds.service.nanos().0 as f64;
        let trip = self.profile.mds.round_trip.nanos().0 as f64;
        let group = &mut self.groups[rank_group.node];
        let number = rank_group.stretch;
        let (next, done) = match rank_group.phase {
            RankPhase::Compute => (RankPhase::Cached, at + stretch.think),
            RankPhase::Cached if stretch.cached == 0 => (RankPhase::Own, at),
            RankPhase::Cached => {
                if group.cached[number].is_nan() {
                    let work = f64::from(stretch.cached) * service;
                    let done = self.metadata.serve(at, work, work * group.nodes * self.busiest);
                    let trips = f64::from(stretch.cached) - stretch.beside;
                    group.cached[number] = done + trips * trip;
                }
                (RankPhase::Own, at.max(group.cached[number]))
            }
            RankPhase::Own if stretch.own == 0 => (RankPhase::DataServer, at),
            RankPhase::Own => {
                let work = f64::from(stretch.own) * service;
                let done = self.metadata.serve(at, work, work * rank_group.ranks * self.busiest);
                (RankPhase::DataServer, done + f64::from(stretch.own) * trip)
            }
            RankPhase::DataServer => {
                rank_group.stretch += 1;
                let fetched = fetch(&mut self.transfer, group, number, &stretch, self.profile, at);
                let read = &mut self.read[number];
                if read.is_nan() {
                    *read = fetched + stretch.disk;
                }
                (RankPhase::Compute, fetched.max(*read))
            }
        };
        rank_group.phase = next;
        Some(done)
    }

    /// How far the last of a group is behind its first.
    fn lag(&self, rank_group: &RankGroup) -> f64 {
        let service = self.profile.mds.service.nanos().0 as f64;
        let sends = |of: fn(&Stretch) -> u32| self.stretches.all.iter().any(|it| of(&it) > 0);
        let nodes = self.groups[rank_group.node].nodes;
        let members = match (sends(|it| it.own), sends(|it| it.cached)) {
            (true, _) => rank_group.ranks,
            (false, true) => nodes,
            // Nobody waits for another where nobody asks.
            (false, false) => 1.0,
        };
        // Of what is fetched last, the last node has its own after all others of the group.
        let last = self.stretches.get(self.stretches.len.saturating_sub(1));
        let data = last.map_or(0.0, |last| self.profile.transfer_time(last.fetched()));
        ((members - 1.0) * service * self.busiest).max((nodes - 1.0) * data)
    }
}

/// Fetches a file's data to the nodes of a group, once. When it is there.
fn fetch(
    transfer: &mut ServerQueue,
    group: &mut NodeGroup,
    number: usize,
    stretch: &Stretch,
    profile: &FilesystemProfile,
    at: f64,
) -> f64 {
    let bytes = stretch.bytes + stretch.faulted.bytes;
    if bytes == 0 {
        return at;
    }
    if group.data[number].is_nan() {
        let time = profile.transfer_time(bytes);
        let trips =
            profile.transfer_trips(stretch.bytes) + profile.fault_trips(stretch.faulted.requests);
        group.data[number] = transfer.serve(at, time, time * group.nodes) + trips;
    }
    at.max(group.data[number])
}

/// Groups of nodes, each with its number of nodes, and the groups of ranks on them.
fn divide(job: JobSize, most: usize) -> (Vec<f64>, Vec<RankGroup>) {
    let (ranks, nodes) = (job.ranks.max(1), job.nodes().max(1));
    let most = most.max(1) as u64;
    let on_a_node = ranks.div_ceil(nodes);
    let parts = on_a_node.min((most / nodes.min(most)).max(ON_A_NODE.min(most)));
    let groups = nodes.min((most / parts).max(1));
    let mut sizes = Vec::new();
    let mut rank_groups = Vec::new();
    for group in 0..groups {
        let of_nodes = share(nodes, groups, group);
        // The first nodes have one rank more where they do not come out even.
        let from = (0..group).map(|before| share(nodes, groups, before)).sum::<u64>();
        let mut of_ranks = ranks / nodes * of_nodes;
        of_ranks += (ranks % nodes).saturating_sub(from).min(of_nodes);
        sizes.push(of_nodes as f64);
        let parts = parts.min(of_ranks.max(1));
        rank_groups.extend((0..parts).map(|_| RankGroup {
            node: group as usize,
            ranks: of_ranks as f64 / parts as f64,
            stretch: 0,
            phase: RankPhase::Compute,
        }));
    }
    (sizes, rank_groups)
}

/// The part of `all` that the one of that number of `parts` has, as even as can be.
fn share(all: u64, parts: u64, number: u64) -> u64 {
    all / parts + u64::from(number < all % parts)
}

/// A moment; never NAN.
#[derive(PartialEq)]
struct SimulatedTime(f64);

impl Eq for SimulatedTime {}

impl PartialOrd for SimulatedTime {
    fn partial_cmp(&self, other: &SimulatedTime) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SimulatedTime {
    fn cmp(&self, other: &SimulatedTime) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
