//! Counts by key, the largest first.

use std::collections::HashMap;
use std::hash::Hash;

/// Operations, and how many of them were answered 'no such file'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub asks: u64,
    pub missing: u64,
}

impl Count {
    pub fn add(&mut self, is_missing: bool) {
        self.asks += 1;
        self.missing += u64::from(is_missing);
    }
}

/// Counts by key.
#[derive(Clone, Debug)]
pub(crate) struct Tally<K> {
    counts: HashMap<K, Count>,
}

impl<K> Default for Tally<K> {
    fn default() -> Tally<K> {
        Tally { counts: HashMap::new() }
    }
}

impl<K: Eq + Hash + Ord + Clone> Tally<K> {
    /// Counts one operation.
    pub fn add(&mut self, key: K, is_missing: bool) {
        self.counts.entry(key).or_default().add(is_missing);
    }

    /// Counts so many operations, whatever their answers.
    pub fn count(&mut self, key: K, asks: u64) {
        self.counts.entry(key).or_default().asks += asks;
    }

    /// How many keys there are.
    pub fn len(&self) -> u64 {
        self.counts.len() as u64
    }

    /// Most operations first; keys with the same count in their own order.
    pub fn by_asks(&self) -> Vec<(K, Count)> {
        self.sorted(|count| count.asks)
    }

    /// Most 'no' first.
    pub fn by_missing(&self) -> Vec<(K, Count)> {
        self.sorted(|count| count.missing)
    }

    /// The key with the most operations.
    pub fn top(&self) -> Option<(K, Count)> {
        self.by_asks().into_iter().next()
    }

    fn sorted(&self, rank: impl Fn(&Count) -> u64) -> Vec<(K, Count)> {
        let mut sorted: Vec<_> =
            self.counts.iter().map(|(key, count)| (key.clone(), *count)).collect();
        sorted.sort_by(|(a, left), (b, right)| rank(right).cmp(&rank(left)).then(a.cmp(b)));
        sorted
    }
}
