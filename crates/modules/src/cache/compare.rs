//! A cache's entries beside the tree that they were made of.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::fault::{Fault, FaultCounts, FaultKind};
use super::held::open;
use super::readers::{FileReaders, Limit, path};
use super::script::{CacheCommand, Says, Script};
use crate::site::Release;
use crate::tree::{self, ChangeStamp, Cookie, ModulepathTree};

/// How much of a file Modules looks at for its cookie, at most.
const COOKIE: usize = 132;

/// A command of rc files that takes names out of a tree (5.7): what is missing may be meant to be.
const IGNORES: &[u8] = b"modulepath-ignore";

/// What a cache is held against.
pub(super) struct CacheComparison<'a> {
    /// The tree as it is now, walked without cookies.
    pub(super) tree: &'a ModulepathTree,
    /// The release that reads the cache, if it is known.
    pub(super) release: Option<&'a Release>,
    /// The moment that the cache shows, in nanoseconds since 1970.
    pub(super) as_of: i128,
    /// The directories that have changed since then, or of which that is not known.
    pub(super) changed: HashSet<&'a Path>,
    /// Whether that moment is of the clock of the modulepath's filesystem, from before anything was
    /// read: what has not changed there since is not read again.
    pub(super) is_exact: bool,
}

/// The directories of a tree that have changed since a moment. The root is none of them: the cache
/// itself is put there.
pub(super) fn changed_directories(tree: &ModulepathTree, as_of: i128) -> HashSet<&Path> {
    let directories = tree.entries.iter().filter(|entry| {
        matches!(
            entry.kind,
            tree::TreeEntryKind::Directory { .. }
                | tree::TreeEntryKind::Unreadable { is_directory: true, .. }
        )
    });
    let is_old = |entry: &&tree::TreeEntry| entry.stamp.is_some_and(|stamp| stamp.changed < as_of);
    directories.filter(|entry| !is_old(entry)).map(|entry| entry.name.as_path()).collect()
}

impl CacheComparison<'_> {
    /// All that is wrong, and how many entries there are.
    pub(super) fn faults(&self, script: &Script<'_>) -> (Vec<Fault>, FaultCounts) {
        let mut readers = FileReaders::of(&self.tree.root);
        let known: HashMap<&[u8], &tree::TreeEntry> = self
            .tree
            .entries
            .iter()
            .map(|entry| (entry.name.as_os_str().as_bytes(), entry))
            .collect();
        let mut faults = Vec::new();
        let mut counts = FaultCounts::default();
        let mut recorded = HashSet::with_capacity(script.entries.len());
        for entry in &script.entries {
            *count(&mut counts, &entry.says) += 1;
            if !recorded.insert(&*entry.name) {
                faults.push(Fault::of(
                    FaultKind::Hostile,
                    path(&entry.name),
                    "it is recorded twice",
                ));
            }
            let there = known.get(&*entry.name).copied();
            let wrong = self.entry(entry, there);
            faults.extend(wrong.map(|(kind, what)| Fault::of(kind, path(&entry.name), what)));
            faults.extend(disclosure(entry, there, &mut readers));
        }
        faults.extend(self.missing(script, &recorded));
        faults.sort_by_key(|fault| fault.kind);
        (faults, counts)
    }

    /// What is wrong with one entry.
    fn entry(
        &self,
        entry: &CacheCommand<'_>,
        there: Option<&tree::TreeEntry>,
    ) -> Option<(FaultKind, &'static str)> {
        use tree::TreeEntryKind as Is;
        let Some(there) = there else { return Some(self.gone(&entry.says)) };
        match (&entry.says, &there.kind) {
            (Says::Modulefile { modified, asks, body }, Is::File(_)) => {
                self.modulefile(there, *modified, asks, body)
            }
            (Says::Rc { body }, Is::Rc(..)) => self.body(there, body),
            (Says::Invalid { .. }, Is::File(_)) => self.invalid(there),
            (Says::LimitedFile, Is::File(_) | Is::Rc(..) | Is::Unreadable { .. })
            | (Says::LimitedDirectory, Is::Directory { .. } | Is::Unreadable { .. }) => None,
            // Each user finds out what it is.
            (Says::LimitedFile | Says::LimitedDirectory, Is::Dangling | Is::Special) => None,
            // `cachebuild` records what is no modulefile, whatever it is.
            (Says::Invalid { .. }, Is::Unreadable { .. } | Is::Dangling | Is::Special) => None,
            _ => Some((FaultKind::Stale, "it is something else by now")),
        }
    }

    fn gone(&self, says: &Says<'_>) -> (FaultKind, &'static str) {
        match says {
            Says::Modulefile { .. } => (FaultKind::Stale, "it was removed, and still loads"),
            Says::Rc { .. } => {
                (FaultKind::Stale, "it was removed, and what it defines still holds")
            }
            _ => (FaultKind::Stale, "it was removed"),
        }
    }

    fn modulefile(
        &self,
        there: &tree::TreeEntry,
        modified: i64,
        asks: &[u8],
        body: &[u8],
    ) -> Option<(FaultKind, &'static str)> {
        let stamp = there.stamp?;
        if stamp.modified.div_euclid(1_000_000_000) != i128::from(modified) {
            return Some((FaultKind::Stale, "it was changed; what loads is what it was"));
        }
        if let wrong @ Some(_) = self.body(there, body) {
            return wrong;
        }
        let cookie = Cookie::of(&body[..body.len().min(COOKIE)]);
        let is_told = match &cookie {
            Cookie::Plain => asks.is_empty(),
            Cookie::Version(version) => version.as_bytes().starts_with(asks),
            _ => false,
        };
        if !is_told {
            return Some((
                FaultKind::Hostile,
                "its recorded cookie is not the one that it begins with",
            ));
        }
        let is_too_new = self.release.is_some_and(|release| !cookie.is_valid_for(release));
        is_too_new.then_some((
            FaultKind::ForeignVersion,
            "it asks for a newer Modules than this, which would take it from this cache",
        ))
    }

    /// Whether a recorded body is still the file's.
    fn body(&self, there: &tree::TreeEntry, body: &[u8]) -> Option<(FaultKind, &'static str)> {
        let stamp = there.stamp?;
        let changed =
            || (FaultKind::Stale, "it is not what is recorded; what counts is what is recorded");
        if stamp.size != body.len() as u64 {
            return Some(changed());
        }
        if memchr::memchr(b'\r', body).is_some() {
            return Some((
                FaultKind::Stale,
                "its lines end with CR, which Modules loses in a cache",
            ));
        }
        let is_as_it_was = self.is_exact
            && stamp.changed < self.as_of
            && !self.came(there)
            && self.tree.top.stamp.is_some_and(|top| top.device == stamp.device);
        (!is_as_it_was && !self.reads(there, body)).then(changed)
    }

    /// Whether a directory that a file lies in has changed since: with a directory that was moved
    /// into the tree come files that have not changed for long.
    fn came(&self, there: &tree::TreeEntry) -> bool {
        let above = there.name.ancestors().skip(1);
        above.into_iter().any(|directory| self.changed.contains(directory))
    }

    /// Whether a file's content is this. What cannot be read now is not known to differ.
    fn reads(&self, there: &tree::TreeEntry, body: &[u8]) -> bool {
        let Ok(file) = open(&self.tree.path(there)) else { return true };
        let mut now = Vec::with_capacity(body.len() + 1);
        let read = File::from(file).take(body.len() as u64 + 1).read_to_end(&mut now);
        read.is_ok() && now == body
    }

    fn invalid(&self, there: &tree::TreeEntry) -> Option<(FaultKind, &'static str)> {
        if !self.is_modulefile(there) {
            return None;
        }
        Some(match there.stamp {
            Some(stamp) if stamp.changed < self.as_of => (
                FaultKind::ForeignVersion,
                "this Modules takes it, and the one that built the cache not",
            ),
            _ => (FaultKind::Stale, "it has become a modulefile"),
        })
    }

    /// Whether a walk would find a modulefile in it now.
    fn is_modulefile(&self, there: &tree::TreeEntry) -> bool {
        let Ok(file) = open(&self.tree.path(there)) else { return false };
        let mut start = Vec::with_capacity(COOKIE);
        if File::from(file).take(COOKIE as u64).read_to_end(&mut start).is_err() {
            return false;
        }
        match (Cookie::of(&start), self.release) {
            (Cookie::Plain, _) | (Cookie::Version(_), None) => true,
            (cookie, Some(release)) => cookie.is_valid_for(release),
            _ => false,
        }
    }

    /// What a walk finds and the cache does not have.
    fn missing(&self, script: &Script<'_>, recorded: &HashSet<&[u8]>) -> Vec<Fault> {
        if script.entries.iter().any(ignores_names) {
            return Vec::new();
        }
        let limited: HashSet<&Path> = script
            .entries
            .iter()
            .filter(|entry| entry.says == Says::LimitedDirectory)
            .map(|entry| path(&entry.name))
            .collect();
        let is_covered =
            |name: &Path| name.ancestors().skip(1).any(|above| limited.contains(above));
        let mut faults = Vec::new();
        for there in &self.tree.entries {
            let bytes = there.name.as_os_str().as_bytes();
            // What is not UTF-8, Modules cannot name.
            let has_no_name = there.name.to_str().is_none();
            if has_no_name || recorded.contains(bytes) || is_covered(&there.name) {
                continue;
            }
            let lacks = match there.kind {
                tree::TreeEntryKind::File(_) if is_a_cache(&there.name) => false,
                tree::TreeEntryKind::File(_) => self.is_modulefile(there),
                tree::TreeEntryKind::Rc(..) => open(&self.tree.path(there)).is_ok(),
                _ => false,
            };
            if lacks {
                faults.push(self.lacking(there, there.stamp));
            }
        }
        faults
    }

    fn lacking(&self, there: &tree::TreeEntry, stamp: Option<ChangeStamp>) -> Fault {
        match stamp {
            Some(stamp) if stamp.changed < self.as_of => Fault::of(
                FaultKind::Partial,
                &there.name,
                "it is older than the cache and not in it",
            ),
            _ => Fault::of(
                FaultKind::Stale,
                &there.name,
                "it was added, and cannot be seen or loaded",
            ),
        }
    }
}

/// Whether the tree hides names from itself.
fn ignores_names(entry: &CacheCommand<'_>) -> bool {
    matches!(&entry.says, Says::Rc { body } if memchr::memmem::find(body, IGNORES).is_some())
}

fn is_a_cache(name: &Path) -> bool {
    name.file_name().is_some_and(|tail| tail == super::NAME)
}

/// What an entry shows to who may not see it.
fn disclosure(
    entry: &CacheCommand<'_>,
    there: Option<&tree::TreeEntry>,
    readers: &mut FileReaders<'_>,
) -> Option<Fault> {
    let what = match &entry.says {
        Says::LimitedFile | Says::LimitedDirectory => return None,
        Says::Invalid { .. } => "its name",
        _ => "all of it",
    };
    // What is gone cannot be asked; it is stale, and told as such.
    if there.is_none()
        && rustix::fs::lstat(readers.root().join(path(&entry.name))).is_err_and(is_gone)
    {
        return None;
    }
    let why = match readers.limit(path(&entry.name), there)? {
        Limit::File => "not everyone may read it".to_owned(),
        Limit::Directory(directory) => format!("not everyone may read {}", directory.display()),
    };
    Some(Fault::of(
        FaultKind::Disclosing,
        path(&entry.name),
        format!("{why}; the cache shows {what}"),
    ))
}

fn is_gone(why: rustix::io::Errno) -> bool {
    matches!(why, rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR)
}

fn count<'a>(counts: &'a mut FaultCounts, says: &Says<'_>) -> &'a mut u64 {
    match says {
        Says::Modulefile { .. } => &mut counts.modulefiles,
        Says::Rc { .. } => &mut counts.rc_files,
        Says::Invalid { .. } => &mut counts.invalid,
        Says::LimitedFile => &mut counts.limited_files,
        Says::LimitedDirectory => &mut counts.limited_directories,
    }
}
