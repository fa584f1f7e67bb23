//! Modulepaths that an answer depends on as a whole: their index stands in for what is in them.
//!
//! `whatis` of 20,000 modulefiles depends on each of them. Where an index says of all that was told the
//! tool, the answer holds as long as an index says so that is true: a watcher knows that in a few calls
//! ([`crate::watched`]), and without one the index is read at once and the tree looked at.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use watch::dependencies::{AnswerDependency, StatAttributes, folded};

use crate::at_once::first_failing;
use crate::index::{IndexNames, IndexStore, PathState, TrustedIndex};
use crate::site::{Environment, modulepath};
use crate::watched::{watched_index, watched_index_of};

/// Fewer dependencies are looked at one by one: a change elsewhere in the tree does not concern them.
const LEAST: usize = 500;
/// From so many on, whoever watches the tree is asked instead: that takes five calls.
const LEAST_WATCHED: usize = 8;

/// A modulepath that an answer depends on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IndexedTree {
    root: PathBuf,
    /// The modulepath's directory itself, as it was told: a dependency of its own, too.
    pub(super) top: AnswerDependency,
    /// The index's file.
    seen: PathState,
    /// Of what it says.
    digest: [u8; 32],
    /// What to look at where the tree is not watched, or not as it was: none where that is as much as
    /// to look at the tree.
    instead: Vec<AnswerDependency>,
}

impl IndexedTree {
    /// The first of what was told of the tree that is not so now.
    ///
    /// Its directory is as it was told: that is a dependency of its own.
    pub(super) fn changed(&self) -> Option<&AnswerDependency> {
        let watched = match &self.top {
            AnswerDependency::Content { told, .. } => {
                watched_index_of((told.device, told.inode), told.user)
            }
            _ => watched_index(&self.root),
        };
        if watched == Some(self.seen) {
            return None;
        }
        match self.instead.is_empty() {
            true => (!self.is_as_indexed()).then_some(&self.top),
            false => {
                first_failing(&self.instead, AnswerDependency::holds).map(|at| &self.instead[at])
            }
        }
    }

    fn is_as_indexed(&self) -> bool {
        let Ok(held) = IndexStore::of(&Environment::own()).held(&self.root) else { return false };
        held.names(&self.root).is_ok_and(|names| {
            digest(&held) == self.digest
                && (watched_index(&self.root) == Some(held.seen) || names.is_fresh(|_| true, true))
        })
    }
}

/// Takes out of an answer's dependencies what the indexes of `$MODULEPATH` say as well.
///
/// The command began at a moment, in seconds since 1970, and has just ended.
pub(super) fn take_indexed(
    dependencies: &mut Vec<AnswerDependency>,
    began: i64,
) -> Vec<IndexedTree> {
    let environment = Environment::own();
    let store = IndexStore::of(&environment);
    let roots = modulepath(environment.get("MODULEPATH").unwrap_or_default());
    let roots = roots.into_iter().filter(|(_, odd)| odd.is_none()).map(|(root, _)| root);
    roots.filter_map(|root| take_one(dependencies, &root, &store, began)).collect()
}

fn take_one(
    dependencies: &mut Vec<AnswerDependency>,
    root: &Path,
    store: &IndexStore,
    began: i64,
) -> Option<IndexedTree> {
    let is_within = |dependency: &&AnswerDependency| dependency_name(root, dependency).is_some();
    let least = match dependencies.iter().filter(is_within).count() {
        LEAST.. => LEAST,
        LEAST_WATCHED.. if watched_index(root).is_some() => LEAST_WATCHED,
        _ => return None,
    };
    let held = store.held(root).ok()?;
    let names = held.names(root).ok()?;
    let told = IndexedNames::of(&names);
    let is_top = |dependency: &&AnswerDependency| {
        matches!(dependency, AnswerDependency::Content { .. })
            && dependency_name(root, dependency) == Some("")
    };
    let top = dependencies.iter().find(is_top)?.clone();
    let is_told = |dependency: &AnswerDependency| told.say(root, dependency);
    let (instead, left): (Vec<_>, Vec<_>) =
        std::mem::take(dependencies).into_iter().partition(is_told);
    if instead.len() < least {
        dependencies.extend(left);
        dependencies.extend(instead);
        return None;
    }
    *dependencies = left;
    let instead = if instead.len() < LEAST { folded(instead, began) } else { Vec::new() };
    Some(IndexedTree {
        root: root.to_owned(),
        top,
        seen: held.seen,
        digest: digest(&held),
        instead,
    })
}

/// The name in a modulepath of which a dependency is the content or the attributes.
fn dependency_name<'a>(root: &Path, dependency: &'a AnswerDependency) -> Option<&'a str> {
    match dependency {
        AnswerDependency::Content { path, .. } | AnswerDependency::Attributes { path, .. } => {
            name_in(root, path)
        }
        _ => None,
    }
}

fn digest(held: &TrustedIndex) -> [u8; 32] {
    Sha256::digest(held.bytes()).into()
}

/// What an index says, by name.
struct IndexedNames<'a> {
    /// Directories and rc files.
    whole: FxHashMap<&'a str, PathState>,
    /// When anything of other files changed.
    changed: FxHashMap<&'a str, i64>,
}

impl<'a> IndexedNames<'a> {
    fn of(names: &'a IndexNames<'_>) -> IndexedNames<'a> {
        let directories = names.directories.iter().map(|it| (&*it.name, it.seen));
        let rcs = names.rcs.iter().map(|rc| (rc.name.as_str(), rc.seen));
        let files = names.files.iter().map(|file| (&*file.name, file.changed));
        IndexedNames { whole: directories.chain(rcs).collect(), changed: files.collect() }
    }

    /// Whether a dependency follows from the index being true. Nothing in it is behind a link.
    fn say(&self, root: &Path, dependency: &AnswerDependency) -> bool {
        let (path, told) = match dependency {
            AnswerDependency::Content { path, told } => (path, Ok(told)),
            AnswerDependency::Attributes { path, told, .. } => (path, told.as_ref()),
            _ => return false,
        };
        let Some(name) = name_in(root, path).filter(|name| !name.is_empty()) else { return false };
        match told {
            Ok(told) => self.are_as_told(name, told),
            // A name that is not in a directory is there only after a change of the directory.
            Err(&libc::ENOENT) => {
                let directory = name.rsplit_once('/').map_or("", |(directory, _)| directory);
                self.whole.contains_key(directory) && !self.whole.contains_key(name)
            }
            Err(_) => false,
        }
    }

    fn are_as_told(&self, name: &str, told: &StatAttributes) -> bool {
        let nanos = |(seconds, nanos): (i64, u32)| {
            seconds.saturating_mul(1_000_000_000).saturating_add(nanos.into())
        };
        let changed = nanos(told.changed);
        match self.whole.get(name) {
            Some(seen) => {
                let (device, inode, modified) = (told.device, told.inode, nanos(told.modified));
                *seen == PathState { device, inode, modified, changed }
            }
            None => self.changed.get(name) == Some(&changed),
        }
    }
}

/// The name in a modulepath that a path is, as an index has it; none of paths in another spelling.
fn name_in<'a>(root: &Path, path: &'a CString) -> Option<&'a str> {
    let path = path.as_bytes().strip_prefix(root.as_os_str().as_bytes())?;
    let name = match path {
        b"" => "",
        [b'/', name @ ..] => std::str::from_utf8(name).ok()?,
        _ => return None,
    };
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    (name.is_empty() || name.split('/').all(is_plain)).then_some(name)
}
