//! A set of calls of a recording: a bit each, as there may be a million.

/// Numbers in [`recording::Recording::events`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSet {
    /// The last one is not 0.
    words: Vec<u64>,
    len: u64,
}

/// How many calls one word holds.
const WORD: usize = u64::BITS as usize;

impl CallSet {
    /// Adds a call; whether it was not there.
    pub fn insert(&mut self, call: usize) -> bool {
        if self.words.len() <= call / WORD {
            self.words.resize(call / WORD + 1, 0);
        }
        let bit = 1 << (call % WORD);
        let word = &mut self.words[call / WORD];
        let is_new = *word & bit == 0;
        *word |= bit;
        self.len += u64::from(is_new);
        is_new
    }

    /// Whether a call is in it.
    pub fn contains(&self, call: usize) -> bool {
        self.words.get(call / WORD).is_some_and(|word| word & 1 << (call % WORD) != 0)
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The calls, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let bits = |word: u64| (0..WORD).filter(move |bit| word & 1 << bit != 0);
        let words = self.words.iter().enumerate();
        words.flat_map(move |(at, word)| bits(*word).map(move |bit| at * WORD + bit))
    }
}

impl Extend<usize> for CallSet {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, calls: I) {
        for call in calls {
            self.insert(call);
        }
    }
}

impl FromIterator<usize> for CallSet {
    fn from_iter<I: IntoIterator<Item = usize>>(calls: I) -> CallSet {
        let mut set = CallSet::default();
        set.extend(calls);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_each_call_once_in_order() {
        let set: CallSet = [700, 3, 64, 63, 3].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 63, 64, 700]);
        assert_eq!((set.len(), set.is_empty()), (4, false));
        assert!(set.contains(64) && !set.contains(65) && !set.contains(100_000));
        assert_eq!(set, [3, 63, 64, 700].into_iter().collect());
    }
}
