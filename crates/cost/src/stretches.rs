//! The stretches of a rank's start, in a few bytes each: there may be a million for each filesystem
//! that it is predicted for, and most take the same RPCs as others.

use rustc_hash::FxHashMap;

use crate::faulted::FaultedData;

/// The number that stands for page faults where calls have theirs.
pub(crate) const FAULTS: u32 = u32::MAX;

/// A stretch of a rank's start: it computes, then waits for RPCs, then reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stretch {
    /// The call that takes the RPCs, in the recording; of several calls, the first.
    pub(crate) event: u32,
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

    /// What it waits for, to be compared.
    fn waits_for(&self) -> [u64; 6] {
        [
            u64::from(self.cached) << 32 | u64::from(self.own),
            self.beside.to_bits(),
            self.bytes,
            self.faulted.requests,
            self.faulted.bytes,
            self.disk.to_bits(),
        ]
    }

    /// Both, one after the other.
    fn then(self, next: Stretch) -> Stretch {
        Stretch {
            event: self.event,
            think: self.think + next.think,
            cached: self.cached + next.cached,
            own: self.own + next.own,
            beside: self.beside + next.beside,
            bytes: self.bytes + next.bytes,
            faulted: self.faulted + next.faulted,
            disk: self.disk + next.disk,
        }
    }
}

/// A stretch without what it waits for.
#[derive(Clone, Copy, Debug)]
struct PackedStretch {
    /// Nanoseconds; a millionth of a per cent is more than clocks tell, and there may be millions.
    think: f32,
    event: u32,
    /// What it waits for, in [`Stretches::kinds`].
    kind: u32,
}

/// Stretches, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretches {
    list: Vec<PackedStretch>,
    /// One of each that waits for something else.
    kinds: Vec<Stretch>,
    numbers: FxHashMap<[u64; 6], u32>,
}

impl Stretches {
    /// None, with room for so many: what grows is there twice for a moment.
    pub(crate) fn with_room(most: usize) -> Stretches {
        Stretches { list: Vec::with_capacity(most), ..Stretches::default() }
    }

    pub(crate) fn push(&mut self, stretch: Stretch) {
        let next = self.kinds.len() as u32;
        let kind = *self.numbers.entry(stretch.waits_for()).or_insert(next);
        if kind == next {
            self.kinds.push(stretch);
        }
        self.list.push(PackedStretch { think: stretch.think as f32, event: stretch.event, kind });
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Stretch> {
        self.list.iter().map(|packed| self.unpacked(packed))
    }

    fn unpacked(&self, packed: &PackedStretch) -> Stretch {
        let kind = self.kinds[packed.kind as usize];
        Stretch { think: packed.think.into(), event: packed.event, ..kind }
    }

    /// So many from that one on, as one.
    pub(crate) fn joined(&self, first: usize, count: usize) -> Option<Stretch> {
        let part = self.list.iter().skip(first).take(count).map(|packed| self.unpacked(packed));
        part.reduce(Stretch::then)
    }
}

impl FromIterator<Stretch> for Stretches {
    fn from_iter<I: IntoIterator<Item = Stretch>>(stretches: I) -> Stretches {
        let mut all = Stretches::default();
        stretches.into_iter().for_each(|stretch| all.push(stretch));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_takes_12_bytes_and_is_given_back_as_it_was() {
        assert_eq!(size_of::<PackedStretch>(), 12);
        let stretch = |number: u32| Stretch {
            event: number,
            think: f64::from(number),
            cached: number % 3,
            own: number % 2,
            bytes: u64::from(number % 5),
            disk: 0.5,
            ..Stretch::default()
        };
        let all: Stretches = (0..100).map(stretch).collect();
        assert!(all.iter().eq((0..100).map(stretch)));
        assert_eq!(all.kinds.len(), 30);
        let joined = all.joined(98, 5).unwrap();
        assert_eq!((joined.event, joined.think), (98, 98.0 + 99.0));
    }
}
