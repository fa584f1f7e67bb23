//! What of a start reaches the server: once a node, or once a rank.

use recording::Nanos;
use serde::Serialize;

use super::Start;
use crate::{Kind, Node, Profile};

/// A stretch of a rank's start: it computes, then asks the server, then reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Visit {
    /// Computing, in nanoseconds.
    pub(super) think: f64,
    /// Operations whose answers the node keeps: the first of its ranks asks.
    pub(super) kept: u32,
    /// Operations that each rank asks.
    pub(super) own: u32,
    /// Bytes that come to the node once.
    pub(super) bytes: u64,
}

/// What one rank, the first on its node, asks of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Asks {
    /// All of it.
    pub operations: u64,
    /// Those that one rank asks for its whole node.
    pub once_a_node: u64,
    /// Those that every rank asks.
    pub every_rank: u64,
    /// Names that were looked up.
    pub lookups: u64,
    /// Of those, answered 'no such file'.
    pub missing: u64,
    /// Opens.
    pub opens: u64,
    /// Parts of directories' listings.
    pub lists: u64,
    /// Anything else.
    pub others: u64,
}

/// A start, as the server sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Visits {
    pub(super) list: Vec<Visit>,
    /// Computing after the last, in nanoseconds.
    pub(super) rest: f64,
    pub(super) asks: Asks,
}

impl Visits {
    /// What is asked where a node keeps what the profile says. `pace` is how many times longer
    /// than alone an operation takes: what is trusted for 30 s is asked again in a start that
    /// takes longer. A warm node has had one such start.
    pub(super) fn of(start: &Start, profile: &Profile, pace: f64, warm: bool) -> Visits {
        let mut node = Node::new(profile, start.shared.clone());
        let latency = profile.latency().0 as f64 * pace;
        let mut at = 0.0;
        let first = Visits::walk(start, &mut node, &mut at, latency, true);
        // Data that was read stays on the node.
        if warm { Visits::walk(start, &mut node, &mut at, latency, false) } else { first }
    }

    fn walk(start: &Start, node: &mut Node, at: &mut f64, latency: f64, fetches: bool) -> Visits {
        let mut visits = Visits { rest: start.rest.0 as f64, ..Visits::default() };
        let mut think = 0.0;
        for step in &start.steps {
            think += step.think.0 as f64;
            *at += step.think.0 as f64;
            let before = visits.list.len();
            node.ask_each(Nanos(*at as u64), &step.question, |operation| {
                visits.asks.add(operation.kind, operation.missing, operation.kept);
                let (kept, own) = if operation.kept { (1, 0) } else { (0, 1) };
                visits.list.push(Visit { think, kept, own, bytes: 0 });
                think = 0.0;
            });
            *at += latency * (visits.list.len() - before) as f64;
            if fetches && step.bytes > 0 {
                visits.list.push(Visit { think, kept: 0, own: 0, bytes: step.bytes });
                think = 0.0;
            }
        }
        visits.rest += think;
        visits
    }

    /// The same in at most so many stretches.
    pub(super) fn in_at_most(&self, most: usize) -> Visits {
        let together = self.list.len().div_ceil(most.max(1)).max(1);
        let merged = |part: &[Visit]| {
            part.iter().fold(Visit::default(), |sum, visit| Visit {
                think: sum.think + visit.think,
                kept: sum.kept + visit.kept,
                own: sum.own + visit.own,
                bytes: sum.bytes + visit.bytes,
            })
        };
        Visits { list: self.list.chunks(together).map(merged).collect(), ..*self }
    }
}

impl Asks {
    fn add(&mut self, kind: Kind, missing: bool, kept: bool) {
        self.operations += 1;
        self.missing += u64::from(missing);
        *if kept { &mut self.once_a_node } else { &mut self.every_rank } += 1;
        *match kind {
            Kind::Lookup => &mut self.lookups,
            Kind::Open => &mut self.opens,
            Kind::List => &mut self.lists,
            _ => &mut self.others,
        } += 1;
    }
}
