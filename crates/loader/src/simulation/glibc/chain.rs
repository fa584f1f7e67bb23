//! The link map's order (`l_next`), and who in it answers to a name or is of a file.
//!
//! The loader goes through all of it for each name. Here only what may answer is asked: a start of some
//! thousand libraries would be millions of comparisons.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::hash::Hasher;
use std::os::unix::ffi::OsStrExt;

use rustc_hash::FxHasher;

use super::PROGRAM;
use super::map::LinkMap;
use crate::FileId;

/// Objects in the order that name matches follow.
#[derive(Clone, Default)]
pub(super) struct Chain {
    order: Vec<usize>,
    /// The hash of each name that an object may answer to, with the object.
    names: BTreeSet<(u64, usize)>,
    files: BTreeSet<(FileId, usize)>,
}

fn hash(name: &OsStr) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name.as_bytes());
    hasher.finish()
}

impl Chain {
    /// An object at the end.
    pub(super) fn push(&mut self, number: usize, map: &LinkMap) {
        self.order.push(number);
        self.names.extend(map.names_of_all_kinds().map(|name| (hash(name), number)));
        self.files.extend(map.id.map(|id| (id, number)));
    }

    /// One more name that led to an object.
    pub(super) fn add_name(&mut self, number: usize, name: &OsStr) {
        self.names.insert((hash(name), number));
    }

    /// Takes those out that were pushed with this number or a later one.
    pub(super) fn drop_from(&mut self, first: usize) {
        self.order.retain(|number| *number < first);
        self.names.retain(|(_, number)| *number < first);
        self.files.retain(|(_, number)| *number < first);
    }

    /// Moves an object to just before another.
    pub(super) fn put_before(&mut self, number: usize, other: usize) {
        self.order.retain(|each| *each != number);
        let at = self.order.iter().position(|each| *each == other).unwrap_or(0);
        self.order.insert(at, number);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.order.iter().copied()
    }

    /// What a name or a file may lead to: what lies before the program is never met.
    pub(super) fn met(&self) -> &[usize] {
        let start = self.order.iter().position(|each| *each == PROGRAM).unwrap_or(0);
        &self.order[start..]
    }

    /// The first that answers to a name.
    pub(super) fn named(&self, name: &OsStr, maps: &[LinkMap]) -> Option<usize> {
        let hash = hash(name);
        let answering = self.names.range((hash, 0)..=(hash, usize::MAX)).map(|(_, number)| *number);
        self.first(answering.filter(|number| maps[*number].answers_to(name)))
    }

    /// The first that is of a file.
    pub(super) fn of_file(&self, id: FileId) -> Option<usize> {
        self.first(self.files.range((id, 0)..=(id, usize::MAX)).map(|(_, number)| *number))
    }

    fn first(&self, mut of: impl Iterator<Item = usize>) -> Option<usize> {
        let one = of.next()?;
        let others: Vec<usize> = of.collect();
        let is_sure = others.is_empty() && self.order.first() == Some(&PROGRAM);
        let is_one = |each: &&usize| **each == one || others.contains(each);
        if is_sure { Some(one) } else { self.met().iter().find(is_one).copied() }
    }
}
