//! Whether the tree is still what the index says.

use super::names::{IndexNames, PathState, RcDefinition};
use crate::at_once::first_failing;
use crate::tree::ChangeStamp;

impl IndexNames<'_> {
    /// Asks for the state of each directory and rc file, and of each other file where `files` are
    /// opened, too: their content and permissions count then. One call each, of what is in those
    /// names at the modulepath's top that `walked` picks.
    pub fn is_fresh(&self, walked: impl Fn(&str) -> bool, files: bool) -> bool {
        let is_walked = |name: &str| walked(name.split('/').next().unwrap_or(name));
        let directories =
            self.directories.iter().filter(|it| it.name.is_empty() || is_walked(&it.name));
        let rcs = self.rcs.iter().filter(|rc| !rc.name.contains('/') || is_walked(&rc.name));
        let all = self.files.iter().filter(|file| files && is_walked(&file.name));
        let mut looks: Vec<_> = directories.map(|it| (&*it.name, it.seen.into())).collect();
        looks.extend(rcs.map(|rc| (&*rc.name, rc.seen.into())));
        looks.extend(all.map(|file| (&*file.name, NameState::Changed(file.changed))));
        first_failing(&looks, |(name, state)| state.is(self.now(name))).is_none()
            && self.cache_is_as_seen()
            && (!files || self.targets_are_as_seen(&is_walked))
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

    /// Whether the modulepath's cache is the one that was checked. An index that is taken on
    /// trust needs this, too: who publishes a cache means that it is used.
    pub fn cache_is_as_seen(&self) -> bool {
        match &self.cache {
            // A new one shows in the modulepath's directory.
            None => true,
            Some(seen) => self.now(crate::cache::NAME) == Some(*seen),
        }
    }

    /// The state of a file or directory; none where it cannot be asked.
    fn now(&self, name: &str) -> Option<PathState> {
        let path = [&self.root, "/", name].concat();
        rustix::fs::stat(path).ok().map(|stat| PathState::from(&ChangeStamp::of(&stat)))
    }
}

/// What a name was.
#[derive(Clone, Copy)]
enum NameState {
    /// All that an index keeps of directories and rc files.
    Whole(PathState),
    /// When anything of a file changed: its content, its permissions, its list of who may read it.
    /// Another file in its place shows in its directory.
    Changed(i64),
}

impl From<PathState> for NameState {
    fn from(state: PathState) -> NameState {
        NameState::Whole(state)
    }
}

impl NameState {
    fn is(self, now: Option<PathState>) -> bool {
        match self {
            NameState::Whole(state) => now == Some(state),
            NameState::Changed(changed) => now.is_some_and(|now| now.changed == changed),
        }
    }
}
