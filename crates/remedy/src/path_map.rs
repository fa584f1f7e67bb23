//! Maps by path, of plans with thousands of them.
//!
//! A path is compared byte for byte: by its parts, as [`std::path::Path`] is, takes longer than what is then
//! done with it. What is told apart so though it is one place is looked at twice, and no more.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

/// Something for each of some paths.
#[derive(Debug)]
pub(crate) struct PathMap<V>(FxHashMap<OsString, V>);

impl<V> Default for PathMap<V> {
    fn default() -> PathMap<V> {
        PathMap(FxHashMap::default())
    }
}

impl<V> PathMap<V> {
    pub(crate) fn get(&self, path: &Path) -> Option<&V> {
        self.0.get(path.as_os_str())
    }

    pub(crate) fn get_mut(&mut self, path: &Path) -> Option<&mut V> {
        self.0.get_mut(path.as_os_str())
    }

    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.0.contains_key(path.as_os_str())
    }

    /// What there was before.
    pub(crate) fn insert(&mut self, path: &Path, value: V) -> Option<V> {
        self.0.insert(path.as_os_str().to_owned(), value)
    }

    pub(crate) fn remove(&mut self, path: &Path) -> Option<V> {
        self.0.remove(path.as_os_str())
    }

    /// What there is for a path, the default if there was nothing.
    pub(crate) fn entry(&mut self, path: &Path) -> &mut V
    where
        V: Default,
    {
        self.0.entry(path.as_os_str().to_owned()).or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &V)> {
        self.0.iter().map(|(path, value)| (Path::new(path), value))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&Path) -> bool) {
        self.0.retain(|path, _| keep(Path::new(path)));
    }
}

impl<V> FromIterator<(PathBuf, V)> for PathMap<V> {
    fn from_iter<T: IntoIterator<Item = (PathBuf, V)>>(all: T) -> PathMap<V> {
        PathMap(all.into_iter().map(|(path, value)| (path.into_os_string(), value)).collect())
    }
}
