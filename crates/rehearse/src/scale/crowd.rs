//! All ranks at once in the server's queue: a closed queue, by event simulation.
//!
//! Every rank computes, asks, waits for the answer and goes on; the server works on one operation
//! at a time, in the order in which they come, exactly as [`Queue`](crate::Queue) does for the
//! rehearsal. Of what a node keeps, the first of its ranks asks; those that come while it waits
//! wait for the same answer (the kernel's `d_alloc_parallel`, `fs/dcache.c`), later ones find it.
//!
//! More than [`CUSTOMERS`] ranks are put together into groups that move as one: a group's
//! operation occupies the server once for each member, and its first member goes on as soon as
//! its own is answered. That keeps both limits of a closed queue as they are: a cycle takes
//! `round trip + service + computing` where the server is idle, and `ranks × service` where it is
//! not. Likewise, long starts are cut into stretches. `crowd_tests.rs` holds the error of both
//! against the simulation of each rank and operation by itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Job;
use super::visits::{Visit, Visits};
use crate::Profile;

/// Groups of ranks that are simulated one by one, at most.
pub(super) const CUSTOMERS: usize = 64;
/// Groups on one node, at least, where there are as many ranks.
const ON_A_NODE: u64 = 8;
/// Groups times stretches, at most.
pub(super) const WORK: usize = 500_000;

/// What became of the ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crowd {
    /// When the last rank is through, in nanoseconds.
    pub(super) last: f64,
    /// How long the server worked on metadata.
    pub(super) busy: f64,
    /// Operations that it answered.
    pub(super) served: u64,
}

/// How fine the simulation is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grain {
    pub(super) customers: usize,
    pub(super) work: usize,
}

/// As fine as a screen of numbers can wait for.
pub(super) const USUAL: Grain = Grain { customers: CUSTOMERS, work: WORK };

/// Ranks that move as one.
struct Customer {
    /// Its group of nodes.
    node: usize,
    /// How many ranks.
    ranks: f64,
    /// At which visit it is.
    visit: usize,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Compute,
    Kept,
    Own,
    Data,
}

/// A server that works on one thing at a time.
struct Station {
    free: f64,
    busy: f64,
}

impl Station {
    /// Works on something that came at `at` and takes `all`; its first part, `first`, is what
    /// whoever asked waits for. When that is done.
    fn serve(&mut self, at: f64, first: f64, all: f64) -> f64 {
        let begins = self.free.max(at);
        self.free = begins + all;
        self.busy += all;
        begins + first
    }
}

/// A group of nodes that move as one.
struct Nodes {
    nodes: f64,
    /// When what it keeps of each visit came: metadata and data. NAN: nobody has asked.
    kept: Vec<f64>,
    data: Vec<f64>,
}

struct Simulation<'a> {
    visits: &'a [Visit],
    profile: &'a Profile,
    metadata: Station,
    transfer: Station,
    groups: Vec<Nodes>,
}

/// Starts all ranks of a job at the same moment.
pub(super) fn run(visits: &Visits, profile: &Profile, job: Job, grain: Grain) -> Crowd {
    let (groups, mut customers) = divide(job, grain.customers);
    let visits = visits.in_at_most(grain.work / customers.len().max(1));
    let none = || vec![f64::NAN; visits.list.len()];
    let groups: Vec<Nodes> =
        groups.into_iter().map(|nodes| Nodes { nodes, kept: none(), data: none() }).collect();
    let station = || Station { free: 0.0, busy: 0.0 };
    let mut simulation = Simulation {
        visits: &visits.list,
        profile,
        metadata: station(),
        transfer: station(),
        groups,
    };
    let mut waiting: BinaryHeap<Reverse<(Moment, usize)>> =
        (0..customers.len()).map(|number| Reverse((Moment(0.0), number))).collect();
    let mut last: f64 = 0.0;
    while let Some(Reverse((Moment(mut at), number))) = waiting.pop() {
        let customer = &mut customers[number];
        let others = waiting.peek().map_or(f64::INFINITY, |Reverse((Moment(next), _))| *next);
        while at <= others {
            match simulation.go_on(customer, at) {
                Some(next) => at = next,
                None => {
                    last = last.max(at + simulation.lag(customer));
                    break;
                }
            }
        }
        if customer.visit < visits.list.len() {
            waiting.push(Reverse((Moment(at), number)));
        }
    }
    let asks = visits.asks;
    Crowd {
        last: last + visits.rest,
        busy: simulation.metadata.busy,
        served: job.nodes() * asks.once_a_node + job.ranks * asks.every_rank,
    }
}

impl Simulation<'_> {
    /// Takes a customer through one phase of its visit. When the next begins; none at the end.
    fn go_on(&mut self, customer: &mut Customer, at: f64) -> Option<f64> {
        let visit = *self.visits.get(customer.visit)?;
        let service = self.profile.metadata.service.nanos().0 as f64;
        let trip = self.profile.metadata.round_trip.nanos().0 as f64;
        let group = &mut self.groups[customer.node];
        let number = customer.visit;
        let (next, done) = match customer.phase {
            Phase::Compute => (Phase::Kept, at + visit.think),
            Phase::Kept if visit.kept == 0 => (Phase::Own, at),
            Phase::Kept => {
                if group.kept[number].is_nan() {
                    let work = f64::from(visit.kept) * service;
                    let done = self.metadata.serve(at, work, work * group.nodes);
                    group.kept[number] = done + f64::from(visit.kept) * trip;
                }
                (Phase::Own, at.max(group.kept[number]))
            }
            Phase::Own if visit.own == 0 => (Phase::Data, at),
            Phase::Own => {
                let work = f64::from(visit.own) * service;
                let done = self.metadata.serve(at, work, work * customer.ranks);
                (Phase::Data, done + f64::from(visit.own) * trip)
            }
            Phase::Data => {
                customer.visit += 1;
                (
                    Phase::Compute,
                    fetch(&mut self.transfer, group, number, visit.bytes, self.profile, at),
                )
            }
        };
        customer.phase = next;
        Some(done)
    }

    /// How far the last of a group is behind its first.
    fn lag(&self, customer: &Customer) -> f64 {
        let service = self.profile.metadata.service.nanos().0 as f64;
        let asks_own = self.visits.iter().any(|visit| visit.own > 0);
        let members = if asks_own { customer.ranks } else { self.groups[customer.node].nodes };
        (members - 1.0) * service
    }
}

/// Fetches a file's data to the nodes of a group, once. When it is there.
fn fetch(
    transfer: &mut Station,
    group: &mut Nodes,
    number: usize,
    bytes: u64,
    profile: &Profile,
    at: f64,
) -> f64 {
    /// Bytes of one transfer, as the rehearsal makes them.
    const PART: u64 = 1 << 20;
    if bytes == 0 {
        return at;
    }
    if group.data[number].is_nan() {
        let time = profile.data.bandwidth.map_or(0.0, |rate| rate.time_for(bytes).0 as f64);
        let trips = bytes.div_ceil(PART) as f64 * profile.data.round_trip.nanos().0 as f64;
        group.data[number] = transfer.serve(at, time, time * group.nodes) + trips;
    }
    at.max(group.data[number])
}

/// Groups of nodes, each with its number of nodes, and the customers on them.
fn divide(job: Job, most: usize) -> (Vec<f64>, Vec<Customer>) {
    let (ranks, nodes) = (job.ranks.max(1), job.nodes().max(1));
    let most = most.max(1) as u64;
    let on_a_node = ranks.div_ceil(nodes);
    let parts = on_a_node.min((most / nodes.min(most)).max(ON_A_NODE.min(most)));
    let groups = nodes.min((most / parts).max(1));
    let mut sizes = Vec::new();
    let mut customers = Vec::new();
    for group in 0..groups {
        let of_nodes = share(nodes, groups, group);
        // The first nodes have one rank more where they do not come out even.
        let from = (0..group).map(|before| share(nodes, groups, before)).sum::<u64>();
        let mut of_ranks = ranks / nodes * of_nodes;
        of_ranks += (ranks % nodes).saturating_sub(from).min(of_nodes);
        sizes.push(of_nodes as f64);
        let parts = parts.min(of_ranks.max(1));
        customers.extend((0..parts).map(|_| Customer {
            node: group as usize,
            ranks: of_ranks as f64 / parts as f64,
            visit: 0,
            phase: Phase::Compute,
        }));
    }
    (sizes, customers)
}

/// The part of `all` that the one of that number of `parts` has, as even as can be.
fn share(all: u64, parts: u64, number: u64) -> u64 {
    all / parts + u64::from(number < all % parts)
}

/// A moment; never NAN.
#[derive(PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Moment) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Moment) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
