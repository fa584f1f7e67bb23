//! Variants of libraries for some hardware, which the loader prefers to the plain file.
//!
//! A file that has one must keep its plain name: another node of the same cluster takes another
//! file.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::farm::FOR_HARDWARE;
use super::pins::Vote;
use super::resolve::LoaderRun;
use super::through::is_variant;
use crate::World;

/// What directories hold for some hardware, each looked at once.
pub(super) struct Variants<'a> {
    world: &'a dyn World,
    known: Mutex<FxHashMap<OsString, HashSet<OsString>>>,
}

impl<'a> Variants<'a> {
    pub fn new(world: &'a dyn World) -> Variants<'a> {
        Variants { world, known: Mutex::default() }
    }

    /// Whether `directory` has variants of the library `name`.
    pub fn has(&self, directory: &Path, name: &OsStr) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = known.get(directory.as_os_str()) {
            return names.contains(name);
        }
        let names = self.names(directory);
        let has = names.contains(name);
        known.insert(directory.into(), names);
        has
    }

    /// Whether there are variants, of this processor or another, of what a vote is for.
    pub fn has_any_of(&self, vote: &Vote, runs: &[LoaderRun]) -> bool {
        let mut members = runs[vote.run].members.iter();
        let Some(member) = members.find(|member| Some(member.id) == vote.to) else { return false };
        let (Some(directory), Some(name)) = (member.path.parent(), member.path.file_name()) else {
            return false;
        };
        is_variant(&member.path) || self.has(directory, name)
    }

    fn names(&self, directory: &Path) -> HashSet<OsString> {
        let mut names = HashSet::new();
        // The world knows most directories without asking the kernel, and what is not in them.
        let is_lacking = |variant: &&&str| self.world.lacks(directory, OsStr::new(variant));
        for variant in FOR_HARDWARE.iter().filter(|variant| !is_lacking(variant)) {
            let directory = directory.join(variant);
            if self.world.is_directory(&directory).is_ok_and(|is_directory| is_directory) {
                add(&directory, 3, &mut names);
            }
        }
        names
    }
}

/// Names in a directory and in those below it: glibc up to 2.36 combines them (tls/haswell).
fn add(directory: &Path, depth: usize, names: &mut HashSet<OsString>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add(&entry.path(), depth - 1, names);
        }
        names.insert(entry.file_name());
    }
}
