//! What an operation asks in Python's import system (importlib's `_bootstrap_external`).

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ModuleSearch;
use crate::query::python::{CACHE, is_module_file, is_site_file, split, upwards};
use crate::{Event, Kind};

/// Why an operation was made.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LookupReason {
    /// Stat of a module's `.py`: the finder sees that it is there, and the loader compares its
    /// time with the bytecode's.
    Source,
    /// Stat of a directory: the finder sees whether its listing of it is still right.
    Directory,
    /// Open of bytecode.
    Bytecode,
    /// A file that would have been the module, but for its suffix, and is not there.
    Suffix,
    /// A directory is listed.
    Listing,
    /// An extension module: its own file.
    Extension,
    /// What the dynamic loader looks for to load an extension module.
    Loader,
    /// A source is read, because its bytecode is missing or stale.
    SourceRead,
    /// Bytecode is written.
    BytecodeWrite,
    /// A zipped package.
    Zip,
    /// Module `site` at the start: pyvenv.cfg, `.pth` files.
    Site,
    /// What installed distributions say of themselves: `*.dist-info`, `entry_points.txt`.
    Metadata,
    /// `lstat` and `readlink`: mostly `realpath`, which asks for each directory above.
    Link,
    /// Files of packages that are no modules.
    Data,
    /// Anything else that a module asks while it is imported.
    Other,
}

impl LookupReason {
    /// As a person would say it.
    pub fn name(self) -> &'static str {
        match self {
            LookupReason::Source => "stat of .py",
            LookupReason::Directory => "stat of a directory (has it changed?)",
            LookupReason::Bytecode => "open of .pyc",
            LookupReason::Suffix => "suffix probe, not there",
            LookupReason::Listing => "listing of a directory",
            LookupReason::Extension => "extension module",
            LookupReason::Loader => "libraries of extension modules",
            LookupReason::SourceRead => "open of .py (no fitting .pyc)",
            LookupReason::BytecodeWrite => "writing of .pyc",
            LookupReason::Zip => "zipped package",
            LookupReason::Site => "site: pyvenv.cfg, .pth",
            LookupReason::Metadata => "metadata of distributions",
            LookupReason::Link => "lstat, readlink (realpath)",
            LookupReason::Data => "package data",
            LookupReason::Other => "other, by the module's own code",
        }
    }

    /// Whether only the import system asks so: what is not so belongs to an import only if it
    /// was seen to be made in one.
    pub fn is_import(self) -> bool {
        !matches!(
            self,
            LookupReason::Metadata | LookupReason::Link | LookupReason::Data | LookupReason::Other
        )
    }
}

impl ModuleSearch {
    /// Why an operation was made on this path (without `..`).
    pub fn reason(&self, event: &Event, path: &[u8]) -> LookupReason {
        let (directory, name) = split(path);
        if event.in_loader {
            let is_own = name.ends_with(b".so") && self.directories.contains(directory);
            return if is_own { LookupReason::Extension } else { LookupReason::Loader };
        }
        if event.is_nofollow() {
            return LookupReason::Link;
        }
        if distribution(path).is_some() {
            return LookupReason::Metadata;
        }
        if is_site_file(name) {
            return LookupReason::Site;
        }
        if name == CACHE || split(directory).1 == CACHE || name.ends_with(b".pyc") {
            return bytecode(event, directory, name);
        }
        if self.is_zip(event, path) {
            return LookupReason::Zip;
        }
        if is_module_file(name) && !event.is_listing() {
            return module_file(event, name);
        }
        match self.directories.contains(path) {
            true if event.is_listing() => LookupReason::Listing,
            true if event.kind() == Kind::Stat => LookupReason::Directory,
            _ if self.is_of_a_package(path) => LookupReason::Data,
            _ => LookupReason::Other,
        }
    }

    fn is_zip(&self, event: &Event, path: &[u8]) -> bool {
        if self.archives.is_empty() {
            return false;
        }
        // zipimporter climbs from a path that is not there to the first that is.
        let climbs = event.kind() == Kind::Stat
            && self.beside_archives.contains(path)
            && !self.directories.contains(path);
        climbs || at_or_above(path, &self.archives)
    }

    fn is_of_a_package(&self, path: &[u8]) -> bool {
        at_or_above(split(path).0, &self.directories)
    }
}

/// Whether a path or a directory above it is one of these.
fn at_or_above(path: &[u8], known: &HashSet<Vec<u8>>) -> bool {
    upwards(path).any(|directory| known.contains(directory))
}

fn bytecode(event: &Event, directory: &[u8], name: &[u8]) -> LookupReason {
    let is_file = name.ends_with(b".pyc");
    match event.kind() {
        _ if event.is_change() => LookupReason::BytecodeWrite,
        // The loader looks for the directory before it writes into it.
        Kind::Stat if name == CACHE => LookupReason::BytecodeWrite,
        Kind::Stat if is_file && event.is_missing() && split(directory).1 != CACHE => {
            LookupReason::Suffix
        }
        _ if event.is_listing() => LookupReason::Other,
        _ => LookupReason::Bytecode,
    }
}

fn module_file(event: &Event, name: &[u8]) -> LookupReason {
    match event.kind() {
        Kind::Stat if event.is_missing() => LookupReason::Suffix,
        Kind::Stat if name.ends_with(b".py") => LookupReason::Source,
        Kind::Stat => LookupReason::Extension,
        Kind::Open if event.is_change() => LookupReason::Other,
        Kind::Open if name.ends_with(b".py") => LookupReason::SourceRead,
        Kind::Open => LookupReason::Extension,
        _ => LookupReason::Other,
    }
}

/// Names that zipped packages have: zipimport's, setuptools' eggs, wheels, zipapps.
pub(super) fn is_archive_name(name: &[u8]) -> bool {
    [&b".zip"[..], b".egg", b".whl", b".pyz"].iter().any(|end| name.ends_with(end))
}

/// The directory (or the file, of old) in which a distribution says what it is.
pub fn distribution(path: &[u8]) -> Option<&[u8]> {
    upwards(path).find(|directory| {
        let (_, name) = split(directory);
        name.ends_with(b".dist-info") || name.ends_with(b".egg-info") || name == b"EGG-INFO"
    })
}
