//! Whether the tree is still what the index says.

use super::names::{FileName, IndexNames, PathState, RcDefinition};
use crate::tree::ChangeStamp;

impl IndexNames<'_> {
    /// Asks for the state of each directory and rc file, and of each other file where `files` are
    /// opened, too: their content and permissions count then. One call each, of what is in those
    /// names at the modulepath's top that `walked` picks.
    pub fn is_fresh(&self, walked: impl Fn(&str) -> bool, files: bool) -> bool {
        let files_count = files;
        let mut path = String::new();
        let is_walked = |name: &str| walked(name.split('/').next().unwrap_or(name));
        let mut directories =
            self.directories.iter().filter(|it| it.name.is_empty() || is_walked(&it.name));
        let mut rcs = self.rcs.iter().filter(|rc| !rc.name.contains('/') || is_walked(&rc.name));
        let mut files = self.files.iter().filter(|file| files && is_walked(&file.name));
        directories.all(|directory| self.now(&directory.name, &mut path) == Some(directory.seen))
            && rcs.all(|rc| self.now(&rc.name, &mut path) == Some(rc.seen))
            && self.cache_is_as_seen()
            && (!files_count || self.targets_are_as_seen(&is_walked))
            && files.all(|file| self.is_unchanged(file, &mut path))
    }

    /// Whether nothing of the files behind virtual modules has changed.
    fn targets_are_as_seen(&self, is_walked: &impl Fn(&str) -> bool) -> bool {
        let mut rules = self.rcs.iter().flat_map(|rc| &rc.rules);
        rules.all(|rule| match rule {
            // Of a name of the rc file's own directory it is not known where it leads.
            RcDefinition::Virtual { name, file, seen, .. }
                if name.starts_with(['.', '/']) || is_walked(name) =>
            {
                let now = rustix::fs::lstat(file.as_str());
                now.is_ok_and(|now| PathState::from(&ChangeStamp::of(&now)) == *seen)
            }
            _ => true,
        })
    }

    /// Whether nothing of a file has changed: its content, its permissions, its list of who may
    /// read it. Another file in its place shows in its directory.
    fn is_unchanged(&self, file: &FileName<'_>, path: &mut String) -> bool {
        self.now(&file.name, path).is_some_and(|now| now.changed == file.changed)
    }

    /// Whether the modulepath's cache is the one that was checked. An index that is taken on
    /// trust needs this, too: who publishes a cache means that it is used.
    pub fn cache_is_as_seen(&self) -> bool {
        match &self.cache {
            // A new one shows in the modulepath's directory.
            None => true,
            Some(seen) => self.now(crate::cache::NAME, &mut String::new()) == Some(*seen),
        }
    }

    /// The state of a file or directory; none where it cannot be asked.
    fn now(&self, name: &str, path: &mut String) -> Option<PathState> {
        path.clear();
        for part in [&self.root, "/", name] {
            path.push_str(part);
        }
        rustix::fs::stat(path.as_str()).ok().map(|stat| PathState::from(&ChangeStamp::of(&stat)))
    }
}
