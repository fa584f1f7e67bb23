//! Whether the tree is still what the index says.

use super::names::{Names, Seen};
use crate::tree::Stamp;

impl Names<'_> {
    /// Asks for the state of each folder and each rc file: one call each. It does not see what
    /// was changed in a modulefile in place, or its permissions.
    pub fn is_fresh(&self) -> bool {
        let folders = self.folders.iter().map(|folder| (folder.name.as_ref(), &folder.seen));
        let rcs = self.rcs.iter().map(|rc| (rc.name.as_str(), &rc.seen));
        let mut path = String::new();
        folders.chain(rcs).all(|(name, seen)| self.is_as_seen(name, seen, &mut path))
            && self.cache_is_as_seen()
    }

    /// Whether the modulepath's cache is the one that was checked. An index that is taken on
    /// trust needs this, too: who publishes a cache means that it is used.
    pub fn cache_is_as_seen(&self) -> bool {
        match &self.cache {
            // A new one shows in the modulepath's folder.
            None => true,
            Some(seen) => self.is_as_seen(crate::cache::NAME, seen, &mut String::new()),
        }
    }

    /// When the newest change was, in nanoseconds since 1970.
    pub(super) fn newest(&self) -> i64 {
        let folders = self.folders.iter().map(|folder| folder.seen.changed);
        let rcs = self.rcs.iter().map(|rc| rc.seen.changed);
        let files = self.files.iter().map(|file| file.changed);
        folders.chain(rcs).chain(files).max().unwrap_or(0)
    }

    fn is_as_seen(&self, name: &str, seen: &Seen, path: &mut String) -> bool {
        path.clear();
        for part in [&self.root, "/", name] {
            path.push_str(part);
        }
        rustix::fs::stat(path.as_str()).is_ok_and(|stat| Seen::from(&Stamp::of(&stat)) == *seen)
    }
}
