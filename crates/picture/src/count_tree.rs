//! A tree of counts, cut to what a page can show.

use std::collections::HashMap;

use serde::Serialize;

use crate::call_use::CallUse;
use crate::pictured_cause::COUNT;

/// A tree that counts calls. The first node is the root; a node comes after that above it.
#[derive(Debug)]
pub(crate) struct CountTree {
    nodes: Vec<CountNode>,
    known: HashMap<(u32, Box<[u8]>), u32>,
}

#[derive(Debug)]
struct CountNode {
    above: u32,
    name: Box<[u8]>,
    /// Its own, and, once added up, of all below it.
    uses: CallUse,
    causes: [u64; COUNT],
}

/// A node as the page gets it: the place of the one above it, its name, metadata operations, failed
/// lookups, seconds that one rank waits, and the number of the cause of most of them.
pub(crate) type TreeRow = (i64, String, u64, u64, f64, usize);

/// The nodes that are shown, each after that above it; each counts what is below it, too.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct TreeRows(pub Vec<TreeRow>);

impl CountTree {
    /// A tree of its root.
    pub(crate) fn new(name: &[u8]) -> CountTree {
        let mut tree = CountTree { nodes: Vec::new(), known: HashMap::new() };
        tree.add(0, name);
        tree
    }

    fn add(&mut self, above: u32, name: &[u8]) -> u32 {
        let (uses, causes) = (CallUse::default(), [0; COUNT]);
        self.nodes.push(CountNode { above, name: name.into(), uses, causes });
        self.nodes.len() as u32 - 1
    }

    /// The node of this name below another.
    pub(crate) fn below(&mut self, above: u32, name: &[u8]) -> u32 {
        // Looked up by a key of its own, as a pair has no borrowed form.
        let key = (above, Box::<[u8]>::from(name));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let new = self.add(above, name);
        self.known.insert(key, new);
        new
    }

    /// Counts calls of a cause at a node.
    pub(crate) fn count(&mut self, node: u32, cause: usize, uses: CallUse) {
        let node = &mut self.nodes[node as usize];
        node.uses += uses;
        node.causes[cause] += uses.ops;
    }

    /// The nodes with most operations, so many at most; what is not shown counts in those above.
    pub(crate) fn rows(mut self, most: usize) -> TreeRows {
        self.add_up();
        let mut sizes: Vec<u64> = self.nodes.iter().map(|node| node.uses.ops).collect();
        sizes.sort_unstable_by_key(|ops| std::cmp::Reverse(*ops));
        // What is above a node has as many operations at least, so that none hangs in the air.
        let least = sizes.get(most).map_or(1, |next| next + 1).max(1);
        let mut places: HashMap<u32, i64> = HashMap::new();
        let mut rows = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            if number > 0 && node.uses.ops < least {
                continue;
            }
            let above = match number {
                0 => -1,
                _ => places.get(&node.above).copied().unwrap_or(0),
            };
            places.insert(number as u32, rows.len() as i64);
            let CallUse { ops, failed, wait } = node.uses;
            rows.push((
                above,
                recording::shown(&node.name),
                ops,
                failed,
                rounded(wait),
                most_of(&node.causes),
            ));
        }
        TreeRows(rows)
    }

    fn add_up(&mut self) {
        for number in (1..self.nodes.len()).rev() {
            let &CountNode { above, uses, causes, .. } = &self.nodes[number];
            let above = &mut self.nodes[above as usize];
            above.uses += uses;
            above.causes.iter_mut().zip(causes).for_each(|(all, one)| *all += one);
        }
    }
}

/// The number of the cause of most operations.
fn most_of(causes: &[u64; COUNT]) -> usize {
    (0..COUNT).rev().max_by_key(|cause| causes[*cause]).unwrap_or_default()
}

/// Seconds, to the microsecond: more would fill the page.
pub(crate) fn rounded(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}
