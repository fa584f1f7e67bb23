//! Counts by key, the largest first.

use std::collections::HashMap;
use std::hash::Hash;

/// Metadata operations, and how many of them failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpCount {
    pub ops: u64,
    pub failed: u64,
}

impl OpCount {
    pub fn add(&mut self, has_failed: bool) {
        self.ops += 1;
        self.failed += u64::from(has_failed);
    }
}

/// Counts by key.
#[derive(Clone, Debug)]
pub(crate) struct OpTally<K> {
    counts: HashMap<K, OpCount>,
}

impl<K> Default for OpTally<K> {
    fn default() -> OpTally<K> {
        OpTally { counts: HashMap::new() }
    }
}

impl<K: Eq + Hash + Ord + Clone> OpTally<K> {
    /// Counts one operation.
    pub fn add(&mut self, key: K, has_failed: bool) {
        self.counts.entry(key).or_default().add(has_failed);
    }

    /// Counts so many operations, whatever came of them.
    pub fn count(&mut self, key: K, ops: u64) {
        self.counts.entry(key).or_default().ops += ops;
    }

    /// How many keys there are.
    pub fn len(&self) -> u64 {
        self.counts.len() as u64
    }

    /// Most operations first; keys with the same count in their own order.
    pub fn by_ops(&self) -> Vec<(K, OpCount)> {
        self.sorted(|count| count.ops)
    }

    /// Most failed ones first.
    pub fn by_failed(&self) -> Vec<(K, OpCount)> {
        self.sorted(|count| count.failed)
    }

    /// The key with the most operations.
    pub fn top(&self) -> Option<(K, OpCount)> {
        self.by_ops().into_iter().next()
    }

    fn sorted(&self, rank: impl Fn(&OpCount) -> u64) -> Vec<(K, OpCount)> {
        let mut sorted: Vec<_> =
            self.counts.iter().map(|(key, count)| (key.clone(), *count)).collect();
        sorted.sort_by(|(a, left), (b, right)| rank(right).cmp(&rank(left)).then(a.cmp(b)));
        sorted
    }
}
