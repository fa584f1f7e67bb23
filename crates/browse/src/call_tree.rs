//! Calls in a tree: each is at one node, and counts in those above it.

use std::collections::HashMap;
use std::ops::Range;

use recording::{Recording, shown};

use crate::counts::{CallCounts, CallFacts};
use crate::typed_filter::SelectedCalls;

/// Nodes of a tree, at most: a bound for hostile recordings. Deeper ones count in those above.
const MOST_NODES: usize = 1 << 20;
/// Where a call is that is in no row.
pub const NOWHERE: u32 = u32::MAX;
/// The node that all others are below. It is not shown.
pub const ROOT: u32 = 0;

/// A tree while it grows. A node comes after that above it.
#[derive(Default)]
pub struct GrowingTree {
    above: Vec<u32>,
    names: Vec<Box<str>>,
    known: HashMap<(u32, Box<[u8]>), u32>,
    /// A node of page faults, which no call makes, and the seconds that one rank waits for them.
    pub faults: Option<(u32, f64)>,
    /// Whether nodes are shown that no call is at, while all calls are counted.
    pub shows_empty: bool,
}

impl GrowingTree {
    /// A tree of its root.
    pub fn new() -> GrowingTree {
        GrowingTree { above: vec![ROOT], names: vec!["".into()], ..GrowingTree::default() }
    }

    /// A new node below another, of a name that may be there already.
    pub fn add(&mut self, above: u32, name: String) -> u32 {
        if self.above.len() >= MOST_NODES {
            return above;
        }
        self.above.push(above);
        self.names.push(name.into());
        self.above.len() as u32 - 1
    }

    /// The node of this name below another.
    pub fn below(&mut self, above: u32, name: &[u8]) -> u32 {
        let key = (above, Box::<[u8]>::from(name));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let new = self.add(above, shown(name));
        self.known.insert(key, new);
        new
    }

    /// The tree, of calls at these nodes.
    pub fn grown(self, mut of_call: Vec<u32>) -> CallTree {
        let places = self.places();
        of_call
            .iter_mut()
            .filter(|node| **node != NOWHERE)
            .for_each(|node| *node = places[*node as usize].start);
        let mut nodes = vec![TreeNode::default(); self.above.len()];
        for ((place, above), name) in places.iter().zip(&self.above).zip(self.names) {
            let above = places[*above as usize].start;
            // Those above come first.
            let depth = match place.start {
                ROOT => 0,
                _ => nodes[above as usize].depth.saturating_add(1),
            };
            nodes[place.start as usize] = TreeNode { above, end: place.end, depth, name };
        }
        let counts = vec![CallCounts::default(); nodes.len()];
        let faults = self.faults.map(|(node, wait)| (places[node as usize].start, wait));
        CallTree {
            nodes,
            of_call,
            counts,
            shown: Vec::new(),
            shows_empty: self.shows_empty,
            faults,
        }
    }

    /// Of each node its place in a walk from the root down, and those of all below it.
    fn places(&self) -> Vec<Range<u32>> {
        let mut sizes = vec![1; self.above.len()];
        for node in (1..sizes.len()).rev() {
            sizes[self.above[node] as usize] += sizes[node];
        }
        let mut places: Vec<Range<u32>> = Vec::with_capacity(sizes.len());
        // Where the next node below each goes.
        let mut free = Vec::with_capacity(sizes.len());
        for (node, above) in self.above.iter().enumerate() {
            let start = if node == 0 { 0 } else { free[*above as usize] };
            let end = start + sizes[node];
            if node > 0 {
                free[*above as usize] = end;
            }
            free.push(start + 1);
            places.push(start..end);
        }
        places
    }
}

#[derive(Clone, Debug, Default)]
struct TreeNode {
    above: u32,
    /// Behind the last node below it.
    end: u32,
    depth: u32,
    /// As text to show.
    name: Box<str>,
}

/// A tree of calls, its nodes in the order of a walk from the root down.
pub struct CallTree {
    nodes: Vec<TreeNode>,
    /// The node of each call, or [`NOWHERE`].
    of_call: Vec<u32>,
    counts: Vec<CallCounts>,
    /// Of each node whether it is shown; empty: all are.
    shown: Vec<bool>,
    /// Whether nodes are shown that no call is at, while all calls are counted.
    shows_empty: bool,
    faults: Option<(u32, f64)>,
}

impl CallTree {
    /// How many nodes there are, the root among them.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A node's name, as text to show.
    pub fn name(&self, node: u32) -> &str {
        &self.nodes[node as usize].name
    }

    /// The node above it.
    pub fn above(&self, node: u32) -> u32 {
        self.nodes[node as usize].above
    }

    /// How many nodes are above it, the root not counted.
    pub fn depth(&self, node: u32) -> usize {
        self.nodes[node as usize].depth.saturating_sub(1) as usize
    }

    /// The calls that are counted at a node and below it.
    pub fn counts(&self, node: u32) -> &CallCounts {
        &self.counts[node as usize]
    }

    /// The nodes right below it that are shown.
    pub fn below(&self, node: u32) -> impl Iterator<Item = u32> {
        let end = self.nodes[node as usize].end;
        let after = move |last: &u32| Some(self.nodes[*last as usize].end).filter(|at| *at < end);
        let first = Some(node + 1).filter(|first| *first < end);
        std::iter::successors(first, after).filter(|node| self.is_shown(*node))
    }

    fn is_shown(&self, node: u32) -> bool {
        self.shown.get(node as usize).copied().unwrap_or(true)
    }

    /// The numbers of the selected calls at a node and below it, as they ended.
    pub fn calls(&self, node: u32, selected: &SelectedCalls) -> Vec<u32> {
        let inside = node..self.nodes[node as usize].end;
        let calls = (0..).zip(&self.of_call);
        let behind = calls.filter(|(call, at)| inside.contains(at) && selected.has(*call as usize));
        behind.map(|(call, _)| call).collect()
    }

    /// CallCounts the selected calls.
    pub fn count(&mut self, recording: &Recording, facts: &CallFacts, selected: &SelectedCalls) {
        self.counts.fill(CallCounts::default());
        for (call, node) in self.of_call.iter().enumerate() {
            if *node != NOWHERE && selected.has(call) {
                self.counts[*node as usize] += &facts.count(recording, call);
            }
        }
        if let Some((node, wait)) = self.faults.filter(|_| selected.is_all()) {
            self.counts[node as usize].wait += wait;
        }
        for node in (1..self.nodes.len()).rev() {
            let (above, below) = self.counts.split_at_mut(node);
            above[self.nodes[node].above as usize] += &below[0];
        }
        let is_there = |counts: &CallCounts| counts.calls > 0 || counts.wait > 0.0;
        self.shown = match self.shows_empty && selected.is_all() {
            true => Vec::new(),
            false => self.counts.iter().map(is_there).collect(),
        };
    }
}
