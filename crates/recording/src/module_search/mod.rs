//! Which calls of Python are made to import a module: the one rule that every count of imports
//! goes by, and where modules are searched.
//!
//! It is inferred, from what importlib's `_bootstrap_external` asks for: files that modules are found
//! in, and the directories that some were looked for in. All calls of a recording tell of each
//! other's paths, so all are looked at once before the first is judged.

mod first_entry;
mod reason;
mod sys_path;

use std::collections::HashSet;

pub use reason::{LookupReason, distribution};
pub use sys_path::{SysPath, absolute};

use crate::query::python::{directory_and_stem, is_installed, is_module_file, is_site_file, split};
use crate::{Event, Exec, Kind, Recording};

/// A metadata operation that a Python made by itself: not the loader for it.
#[derive(Clone, Copy)]
pub struct PythonCall<'a> {
    /// The call.
    pub event: &'a Event,
    /// Its path without `..`.
    pub path: &'a [u8],
    /// The program that made it.
    pub exec: &'a Exec,
}

/// Where the Pythons of a recording looked for modules.
#[derive(Default)]
pub struct ModuleSearch {
    /// The entries of `sys.path`.
    pub sys_path: SysPath,
    /// Directories that modules were looked for in, and entries of `sys.path`.
    directories: HashSet<Vec<u8>>,
    /// Files that are searched like directories.
    archives: HashSet<Vec<u8>>,
    /// The directories that those are in.
    beside_archives: HashSet<Vec<u8>>,
}

impl ModuleSearch {
    /// What these calls tell; `told` are entries of `sys.path` that are known otherwise.
    pub fn of(recording: &Recording, calls: &[PythonCall], told: &[Vec<u8>]) -> ModuleSearch {
        let sys_path = SysPath::of(recording, calls, told);
        let mut search = ModuleSearch { sys_path, ..ModuleSearch::default() };
        search.directories.extend(search.sys_path.entries().iter().cloned());
        for PythonCall { event, path, .. } in calls {
            if matches!(event.kind(), Kind::Open | Kind::Stat) && !event.is_nofollow() {
                let sought = directory_and_stem(path).map(|(directory, _)| directory);
                // Module `site` looks which of these are there.
                let installed = is_installed(path).then_some(*path);
                for directory in sought.into_iter().chain(installed) {
                    insert(&mut search.directories, directory);
                }
            }
            search.see_archive(event, path);
        }
        let above = search.archives.iter().map(|archive| split(archive).0.to_vec());
        search.beside_archives = above.collect();
        search
    }

    fn see_archive(&mut self, event: &Event, path: &[u8]) {
        let is_named_so = reason::is_archive_name(split(path).1);
        let is_file = event.kind() == Kind::Open && !event.is_listing() && !event.outcome.failed();
        let is_absent = event.kind() == Kind::Stat && event.is_missing();
        let is_entry = || self.sys_path.contains(path);
        if (is_file && (is_named_so || is_entry())) || (is_absent && is_named_so) {
            insert(&mut self.archives, path);
        }
    }

    /// Whether a call that Python made by itself, on this path (without `..`), is part of an import.
    pub fn is_import(&self, event: &Event, path: &[u8]) -> bool {
        match event.kind() {
            kind if kind.is_metadata() => self.reason(event, path).is_import(),
            // What is done with a file once it is open belongs to its open.
            Kind::Fstat | Kind::Read | Kind::Close => {
                let name = split(path).1;
                let is_file = is_module_file(name) || is_site_file(name);
                is_file || self.directories.contains(path) || self.is_archive(path)
            }
            _ => false,
        }
    }

    /// Whether a path is a file that is searched like a directory.
    pub fn is_archive(&self, path: &[u8]) -> bool {
        self.archives.contains(path)
    }
}

fn insert(set: &mut HashSet<Vec<u8>>, path: &[u8]) {
    if !set.contains(path) {
        set.insert(path.to_vec());
    }
}
