//! Names and what they are, in the order in which they came: most come as they are shown.

use rustc_hash::FxHashMap;

use super::found::{Name, What};

/// A map that keeps its order.
pub(super) struct Catalog<'a> {
    entries: Vec<(Name<'a>, Option<What>)>,
    places: FxHashMap<Name<'a>, u32>,
    /// Whether a symbolic version is among them.
    has_versions: bool,
}

impl<'a> Catalog<'a> {
    pub(super) fn with_room_for(names: usize) -> Catalog<'a> {
        let mut places = FxHashMap::default();
        places.reserve(names);
        Catalog { entries: Vec::with_capacity(names), places, has_versions: false }
    }

    /// Puts a name down, or changes what it is.
    pub(super) fn insert(&mut self, name: Name<'a>, what: What) {
        self.has_versions |= matches!(what, What::Version(_));
        let next = self.entries.len() as u32;
        let place = *self.places.entry(name.clone()).or_insert(next);
        match self.entries.get_mut(place as usize) {
            Some(entry) => entry.1 = Some(what),
            None => self.entries.push((name, Some(what))),
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(place) = self.places.get(name) {
            self.entries[*place as usize].1 = None;
        }
    }

    pub(super) fn entry(&self, name: &str) -> Option<(&Name<'a>, &What)> {
        let (name, what) = &self.entries[*self.places.get(name)? as usize];
        Some((name, what.as_ref()?))
    }

    pub(super) fn get(&self, name: &str) -> Option<&What> {
        self.entry(name).map(|(_, what)| what)
    }

    pub(super) fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name<'a>, &What)> {
        self.entries.iter().filter_map(|(name, what)| Some((name, what.as_ref()?)))
    }

    pub(super) fn has_versions(&self) -> bool {
        self.has_versions
    }
}
