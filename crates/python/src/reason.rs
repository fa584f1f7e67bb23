//! What an operation asks in Python's import system (importlib's `_bootstrap_external`).

use std::collections::HashSet;

use recording::query::python::{
    CACHE, directory_and_stem, is_module_file, is_site_file, split, upwards,
};
use recording::{Kind, Phase};
use serde::{Deserialize, Serialize};

use crate::ask::ImportOperation;

/// Why an operation was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    pub(crate) fn is_import(self) -> bool {
        !matches!(
            self,
            LookupReason::Metadata | LookupReason::Link | LookupReason::Data | LookupReason::Other
        )
    }
}

/// What reasons depend on beside the operation itself.
pub(crate) struct ReasonContext<'a> {
    /// Directories that modules were looked for in, and entries of `sys.path`.
    directories: HashSet<&'a [u8]>,
    /// Files that are searched like directories.
    pub(crate) archives: HashSet<&'a [u8]>,
    /// The directories that those are in.
    beside_archives: HashSet<&'a [u8]>,
}

impl<'a> ReasonContext<'a> {
    /// Looks at all operations once; `entries` are those of `sys.path`.
    pub(crate) fn of(
        asks: &[ImportOperation<'a>],
        entries: &HashSet<&'a [u8]>,
    ) -> ReasonContext<'a> {
        let mut directories = entries.clone();
        let mut archives = HashSet::new();
        for ask in asks.iter().filter(|ask| ask.mark.is_none() && !ask.event.in_loader) {
            if matches!(ask.kind, Kind::Open | Kind::Stat)
                && !ask.is_nofollow()
                && let Some((directory, _)) = directory_and_stem(ask.path)
            {
                directories.insert(directory);
            }
            let may_be = is_archive_name(ask.split().1) || entries.contains(ask.path);
            let is_file = ask.kind == Kind::Open && !ask.is_listing() && ask.is_yes();
            let is_absent = ask.kind == Kind::Stat && ask.is_missing();
            if may_be && (is_file || (is_absent && is_archive_name(ask.split().1))) {
                archives.insert(ask.path);
            }
        }
        let beside_archives = archives.iter().map(|archive| split(archive).0).collect();
        ReasonContext { directories, archives, beside_archives }
    }

    /// Why the operation was made.
    pub(crate) fn reason(&self, ask: &ImportOperation) -> LookupReason {
        let (directory, name) = ask.split();
        if ask.event.in_loader {
            let is_own = name.ends_with(b".so") && self.directories.contains(directory);
            return if is_own { LookupReason::Extension } else { LookupReason::Loader };
        }
        if ask.is_nofollow() {
            return LookupReason::Link;
        }
        if is_distribution(ask.path) {
            return LookupReason::Metadata;
        }
        if is_site_file(name) {
            return LookupReason::Site;
        }
        if name == CACHE || split(directory).1 == CACHE || name.ends_with(b".pyc") {
            return bytecode(ask, directory, name);
        }
        if self.is_zip(ask) {
            return LookupReason::Zip;
        }
        if is_module_file(name) && !ask.is_listing() {
            return module_file(ask, name);
        }
        match self.directories.contains(ask.path) {
            true if ask.is_listing() => LookupReason::Listing,
            true if ask.kind == Kind::Stat => LookupReason::Directory,
            _ if self.is_of_a_package(ask.path) => LookupReason::Data,
            _ => LookupReason::Other,
        }
    }

    fn is_zip(&self, ask: &ImportOperation) -> bool {
        if self.archives.is_empty() {
            return false;
        }
        // zipimporter climbs from a path that is not there to the first that is.
        let climbs = ask.kind == Kind::Stat
            && self.beside_archives.contains(ask.path)
            && !self.directories.contains(ask.path);
        climbs || at_or_above(ask.path, &self.archives)
    }

    fn is_of_a_package(&self, path: &[u8]) -> bool {
        at_or_above(split(path).0, &self.directories)
    }
}

/// Whether a path or a directory above it is one of these.
fn at_or_above(path: &[u8], known: &HashSet<&[u8]>) -> bool {
    upwards(path).any(|directory| known.contains(directory))
}

fn bytecode(ask: &ImportOperation, directory: &[u8], name: &[u8]) -> LookupReason {
    let is_file = name.ends_with(b".pyc");
    match ask.kind {
        _ if ask.is_change() => LookupReason::BytecodeWrite,
        // The loader looks for the directory before it writes into it.
        Kind::Stat if name == CACHE => LookupReason::BytecodeWrite,
        Kind::Stat if is_file && ask.is_missing() && split(directory).1 != CACHE => {
            LookupReason::Suffix
        }
        _ if ask.is_listing() => LookupReason::Other,
        _ => LookupReason::Bytecode,
    }
}

fn module_file(ask: &ImportOperation, name: &[u8]) -> LookupReason {
    match ask.kind {
        Kind::Stat if ask.is_missing() => LookupReason::Suffix,
        Kind::Stat if name.ends_with(b".py") => LookupReason::Source,
        Kind::Stat => LookupReason::Extension,
        Kind::Open if ask.is_change() => LookupReason::Other,
        Kind::Open if name.ends_with(b".py") => LookupReason::SourceRead,
        Kind::Open => LookupReason::Extension,
        _ => LookupReason::Other,
    }
}

/// Names that zipped packages have: zipimport's, setuptools' eggs, wheels, zipapps.
fn is_archive_name(name: &[u8]) -> bool {
    [&b".zip"[..], b".egg", b".whl", b".pyz"].iter().any(|end| name.ends_with(end))
}

/// Whether a path is, or is in, what a distribution says of itself.
pub(crate) fn is_distribution(path: &[u8]) -> bool {
    distribution(path).is_some()
}

/// The directory (or the file, of old) in which a distribution says what it is.
pub(crate) fn distribution(path: &[u8]) -> Option<&[u8]> {
    upwards(path).find(|directory| {
        let (_, name) = split(directory);
        name.ends_with(b".dist-info") || name.ends_with(b".egg-info") || name == b"EGG-INFO"
    })
}

/// Whether the dynamic loader asked before the program began.
pub(crate) fn is_start(ask: &ImportOperation) -> bool {
    ask.event.in_loader && ask.event.phase == Phase::Loading
}
