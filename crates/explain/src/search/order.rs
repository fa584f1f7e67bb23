//! What a list would take in another order, simulated on what was searched.

use std::collections::BTreeMap;

use super::lists::ListSearches;

/// What another order of a list does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderChange {
    /// The lookups that are no longer made, as numbers of events.
    pub spared: Vec<usize>,
    /// How many are made that were not.
    pub added: u64,
}

impl OrderChange {
    /// The lookups that are no longer made, as many fewer as there are then.
    pub fn net(mut self) -> Vec<usize> {
        self.spared.truncate(self.spared.len().saturating_sub(self.added as usize));
        self.spared
    }
}

impl ListSearches {
    /// In how many searches each directory had what was searched.
    pub fn found(&self) -> Vec<u64> {
        let mut found = vec![0; self.entries.len()];
        for entry in self.searches.iter().filter_map(|search| search.found) {
            found[entry] += 1;
        }
        found
    }

    /// The numbers of the directories in the best order, among those of which nobody says that two
    /// have to stay as they are to each other: a directory goes before another that has less. Only
    /// what the list itself gives changes its place.
    pub fn best_order(&self, must_stay: impl Fn(usize, usize) -> bool) -> Vec<usize> {
        let found = self.found();
        let mut given: Vec<usize> =
            (0..self.entries.len()).filter(|entry| self.entries[*entry].is_given).collect();
        for next in 1..given.len() {
            let mut at = next;
            while at > 0
                && found[given[at]] > found[given[at - 1]]
                && !must_stay(given[at - 1], given[at])
            {
                given.swap(at - 1, at);
                at -= 1;
            }
        }
        let mut given = given.into_iter();
        let place = |entry: usize| match self.entries[entry].is_given {
            true => given.next().unwrap_or(entry),
            false => entry,
        };
        (0..self.entries.len()).map(place).collect()
    }

    /// What that order does.
    pub fn change_by(&self, order: &[usize]) -> OrderChange {
        let mut place = vec![usize::MAX; self.entries.len()];
        for (at, entry) in order.iter().enumerate() {
            place[*entry] = at;
        }
        let mut change = OrderChange::default();
        for search in &self.searches {
            // What the list does not give stays where it is, before or behind all of it.
            let found = search.found.filter(|found| self.entries[*found].is_given);
            let Some(found) = found else { continue };
            let mut tried: BTreeMap<usize, u64> = BTreeMap::new();
            for (entry, event) in search.probes.iter().filter(|(entry, _)| *entry != found) {
                *tried.entry(*entry).or_default() += 1;
                if self.entries[*entry].is_given && place[*entry] > place[found] {
                    change.spared.push(*event);
                }
            }
            let each = match tried.len() as u64 {
                0 => 1,
                entries => tried.values().sum::<u64>().div_ceil(entries),
            };
            let before = order.iter().take_while(|entry| **entry != found);
            change.added += before.filter(|entry| !tried.contains_key(entry)).count() as u64 * each;
        }
        change
    }

    /// The lookups in these directories: what is no longer made without them.
    pub fn lookups_in(&self, entries: &[usize]) -> Vec<usize> {
        let probes = self.searches.iter().flat_map(|search| &search.probes);
        let probes = probes.filter(|(entry, _)| entries.contains(entry)).map(|(_, event)| *event);
        let own = entries.iter().flat_map(|entry| &self.entries[*entry].own).copied();
        probes.chain(own).collect()
    }

    /// The lookups that are no longer made where all directories are one.
    pub fn spared_by_merging(&self) -> Vec<usize> {
        let mut spared = Vec::new();
        for search in &self.searches {
            let kept = search.found.or(search.probes.first().map(|(entry, _)| *entry));
            let others = search.probes.iter().filter(|(entry, _)| Some(*entry) != kept);
            spared.extend(others.map(|(_, event)| *event));
        }
        spared
    }

    /// The directories that the list gives and that had nothing of what was searched, or opened.
    pub fn never_hit(&self) -> Vec<usize> {
        let found = self.found();
        let is_useless = |at: &usize| {
            let entry = &self.entries[*at];
            entry.is_given && !entry.is_used && found[*at] == 0
        };
        (0..self.entries.len()).filter(is_useless).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::lists::{ListEntry, NameSearch};
    use super::*;

    /// A list of so many directories, and searches that try one after the other up to theirs.
    fn list(directories: usize, found: &[usize]) -> ListSearches {
        let entry = |number| ListEntry::new(format!("/d{number}").as_bytes(), true);
        let mut event = 0;
        let mut search = |found: &usize| {
            let probes = (0..*found).map(|entry| {
                event += 1;
                (entry, event)
            });
            NameSearch { probes: probes.collect(), found: Some(*found) }
        };
        let searches = found.iter().map(&mut search).collect();
        ListSearches { entries: (0..directories).map(entry).collect(), searches }
    }

    #[test]
    fn the_directory_that_has_most_goes_first_unless_it_must_stay_behind_another() {
        let list = list(4, &[3, 3, 3, 1]);
        assert_eq!(list.best_order(|_, _| false), [3, 1, 0, 2]);
        assert_eq!(list.best_order(|one, other| (one, other) == (0, 3)), [1, 0, 3, 2]);
        assert_eq!(list.never_hit(), [0, 2]);
    }

    #[test]
    fn what_an_order_spares_is_what_it_takes_away_without_what_it_adds() {
        let list = list(4, &[3, 3, 0]);
        // Twice three lookups go, and the one that was found at once takes one more.
        assert_eq!(list.change_by(&[3, 0, 1, 2]).net().len(), 5);
        assert_eq!(list.change_by(&[0, 1, 2, 3]).net().len(), 0);
        assert_eq!(list.lookups_in(&[1, 2]).len(), 4);
        assert_eq!(list.spared_by_merging().len(), 6);
    }
}
