//! What each call of a start has of its wait, in a few bytes each: there may be a million, and most
//! have the same as others.

use rustc_hash::FxHashMap;

use crate::PredictedWait;

/// The parts of a wait, by the number of the call in the recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitParts {
    /// Calls, and which of the parts they have; ascending once all are there.
    calls: Vec<(u32, u32)>,
    /// Those that there are, each once.
    parts: Vec<PredictedWait>,
    numbers: FxHashMap<[u64; 4], u32>,
}

impl WaitParts {
    /// A call's part; each call comes once.
    pub(crate) fn push(&mut self, event: u32, part: PredictedWait) {
        let next = self.parts.len() as u32;
        let key = [part.rpcs, part.bytes_read, part.one_rank.to_bits(), part.all_ranks.to_bits()];
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.parts.push(part);
        }
        self.calls.push((event, number));
    }

    /// All are there.
    pub(crate) fn settle(&mut self) {
        self.numbers = FxHashMap::default();
        self.calls.sort_unstable();
        self.calls.shrink_to_fit();
    }

    /// What a call has, if anything.
    pub(crate) fn of(&self, event: usize) -> Option<PredictedWait> {
        let at = self.calls.binary_search_by_key(&event, |(call, _)| *call as usize).ok()?;
        self.parts.get(self.calls.get(at)?.1 as usize).copied()
    }
}
