//! Names and what they are, in the order in which they came: most come as they are shown.

use std::cell::OnceCell;

use rustc_hash::FxHashMap;

use super::found::{AvailName, NameKind};

/// A map that keeps its order.
pub(super) struct Catalog<'a> {
    entries: Vec<(AvailName<'a>, Option<NameKind>)>,
    /// Where each name is. Of 20,000 names in a tree without symbols, nobody asks.
    places: OnceCell<FxHashMap<AvailName<'a>, u32>>,
    /// Whether a symbolic version is among them.
    has_versions: bool,
}

impl<'a> Catalog<'a> {
    pub(super) fn with_room_for(names: usize) -> Catalog<'a> {
        let entries = Vec::with_capacity(names);
        Catalog { entries, places: OnceCell::new(), has_versions: false }
    }

    /// Puts down a name that is not there yet.
    pub(super) fn push(&mut self, name: AvailName<'a>, what: NameKind) {
        self.has_versions |= matches!(what, NameKind::Version(_));
        if let Some(places) = self.places.get_mut() {
            places.insert(name.clone(), self.entries.len() as u32);
        }
        self.entries.push((name, Some(what)));
    }

    /// Puts a name down, or changes what it is.
    pub(super) fn insert(&mut self, name: AvailName<'a>, what: NameKind) {
        match self.place(&name) {
            None => self.push(name, what),
            Some(place) => {
                self.has_versions |= matches!(what, NameKind::Version(_));
                self.entries[place].1 = Some(what);
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(place) = self.place(name) {
            self.entries[place].1 = None;
        }
    }

    pub(super) fn entry(&self, name: &str) -> Option<(&AvailName<'a>, &NameKind)> {
        let (name, what) = &self.entries[self.place(name)?];
        Some((name, what.as_ref()?))
    }

    pub(super) fn get(&self, name: &str) -> Option<&NameKind> {
        self.entry(name).map(|(_, what)| what)
    }

    pub(super) fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&AvailName<'a>, &NameKind)> {
        self.entries.iter().filter_map(|(name, what)| Some((name, what.as_ref()?)))
    }

    /// All of them, in the memory that they are in: `collect` of a `Vec`'s own iterator takes it
    /// over.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (AvailName<'a>, NameKind)> {
        self.entries.into_iter().filter_map(|(name, what)| Some((name, what?)))
    }

    pub(super) fn has_versions(&self) -> bool {
        self.has_versions
    }

    fn place(&self, name: &str) -> Option<usize> {
        let places = self.places.get_or_init(|| {
            let names = self.entries.iter().map(|(name, _)| name.clone());
            names.zip(0..).collect()
        });
        places.get(name).map(|place| *place as usize)
    }
}
