//! The entries of `sys.path`, as far as a recording tells.

use std::collections::HashSet;

use super::PythonCall;
use super::first_entry::StartOfPath;
use super::reason::is_archive_name;
use crate::query::clean;
use crate::query::python::{CACHE, directory_and_stem, is_installed, package_of, split, upwards};
use crate::{Exec, Kind, Recording};

/// The entries of `sys.path` that were searched, of all Pythons of a recording.
///
/// A directory in which modules were found is not therefore one of them: packages are searched, too.
#[derive(Default)]
pub struct SysPath {
    entries: Vec<Vec<u8>>,
    known: HashSet<Vec<u8>>,
    from_pythonpath: HashSet<Vec<u8>>,
}

impl SysPath {
    /// What these calls tell; `told` are entries that are known otherwise.
    pub(super) fn of(recording: &Recording, calls: &[PythonCall], told: &[Vec<u8>]) -> SysPath {
        let traces = SearchTraces::of(calls);
        let mut sys_path = SysPath::default();
        sys_path.read_environments(recording, calls, &traces);
        let own = std::mem::take(&mut sys_path.entries);
        sys_path.known.clear();
        told.iter().chain(&own).for_each(|entry| sys_path.add(entry));
        for call in calls.iter().filter(|call| !call.event.outcome.failed()) {
            if let Some(installed) = upwards(call.path).find(|path| is_installed(path)) {
                sys_path.add(installed);
            }
        }
        let zips: Vec<_> =
            traces.asked.iter().filter(|path| is_library_zip(path, &sys_path)).collect();
        zips.into_iter().for_each(|path| sys_path.add(path));
        for directory in &traces.holders {
            let top = upwards(directory).find(|directory| !traces.packages.contains(directory));
            let top = top.filter(|top| traces.searched.contains(top));
            if let Some(top) = top.filter(|top| sys_path.entry_of(top).is_none()) {
                sys_path.add(top);
            }
        }
        sys_path
    }

    /// What each Python was given: its script's directory, and PYTHONPATH. Neither counts unless it
    /// was asked for: `-I` ignores both.
    fn read_environments(
        &mut self,
        recording: &Recording,
        calls: &[PythonCall],
        traces: &SearchTraces,
    ) {
        let mut seen: HashSet<*const Exec> = HashSet::new();
        // Thousands of ranks have one environment.
        let mut lists: HashSet<(&str, &[u8])> = HashSet::new();
        for exec in calls.iter().map(|call| call.exec) {
            if !seen.insert(std::ptr::from_ref(exec)) {
                continue;
            }
            let cwd = recording.path(exec.cwd);
            let StartOfPath { script, directory } = StartOfPath::of(recording, exec);
            let script = script.map(|script| absolute(cwd, &script));
            let script = script.filter(|script| traces.has_searched(script));
            let first = script.unwrap_or_else(|| absolute(cwd, &directory));
            if traces.has_asked(&first) {
                self.add(&first);
            }
            let list = exec.env.iter().find(|(name, _)| name == "PYTHONPATH");
            let list = list.map_or("", |(_, value)| value.as_str());
            if lists.insert((list, cwd)) {
                for entry in list.split(':').filter(|entry| !entry.is_empty()) {
                    let entry = absolute(cwd, entry.as_bytes());
                    if traces.has_asked(&entry) {
                        self.add(&entry);
                        self.from_pythonpath.insert(entry);
                    }
                }
            }
        }
    }

    fn add(&mut self, entry: &[u8]) {
        if !self.known.contains(entry) {
            self.known.insert(entry.to_vec());
            self.entries.push(entry.to_vec());
        }
    }

    /// All of them: those that are told or given first.
    pub fn entries(&self) -> &[Vec<u8>] {
        &self.entries
    }

    /// Whether this is one.
    pub fn contains(&self, entry: &[u8]) -> bool {
        self.known.contains(entry)
    }

    /// Whether PYTHONPATH names it.
    pub fn is_from_pythonpath(&self, entry: &[u8]) -> bool {
        self.from_pythonpath.contains(entry)
    }

    /// The entry that a path is in: the deepest at or above it.
    pub fn entry_of<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        // Above all there is the root: an entry for itself only.
        let is_root = path == b"/" && self.contains(path);
        upwards(path).find(|directory| self.contains(directory)).or(is_root.then_some(path))
    }
}

/// What the finders left behind.
#[derive(Default)]
struct SearchTraces<'a> {
    /// What was asked for by stat.
    asked: HashSet<&'a [u8]>,
    /// The directories of those that were listed, too.
    searched: HashSet<&'a [u8]>,
    /// Directories that a module was loaded from: its bytecode is asked for, or it is an extension.
    holders: Vec<&'a [u8]>,
    /// Those that hold an `__init__`.
    packages: HashSet<&'a [u8]>,
}

impl<'a> SearchTraces<'a> {
    fn of(calls: &[PythonCall<'a>]) -> SearchTraces<'a> {
        let mut traces = SearchTraces::default();
        let mut listed: HashSet<&[u8]> = HashSet::new();
        let mut holders = HashSet::new();
        for PythonCall { event, path, .. } in calls {
            if event.is_listing() {
                listed.insert(path);
                continue;
            }
            if event.is_nofollow() {
                continue;
            }
            if event.kind() == Kind::Stat {
                traces.asked.insert(path);
            }
            let is_bytecode = split(split(path).0).1 == CACHE;
            if event.outcome.failed() && !is_bytecode {
                continue;
            }
            traces.packages.extend(package_of(path));
            let is_loaded = is_bytecode || path.ends_with(b".so");
            let holder = directory_and_stem(path).filter(|_| is_loaded);
            let holder = holder.map(|(directory, _)| directory);
            if let Some(holder) = holder.filter(|holder| holders.insert(*holder)) {
                traces.holders.push(holder);
            }
        }
        traces.searched = traces.asked.intersection(&listed).copied().collect();
        traces
    }

    /// Whether a file, or a directory, was searched.
    fn has_searched(&self, entry: &[u8]) -> bool {
        let is_archive = is_archive_name(split(entry).1) && self.has_asked(entry);
        is_archive || self.searched.contains(entry)
    }

    fn has_asked(&self, entry: &[u8]) -> bool {
        self.asked.contains(entry)
    }
}

/// `/usr/lib/python311.zip`, beside the library `/usr/lib/python3.11`.
fn is_library_zip(path: &[u8], sys_path: &SysPath) -> bool {
    let (above, name) = split(path);
    let version = name.strip_prefix(b"python").and_then(|rest| rest.strip_suffix(b".zip"));
    version.and_then(|version| version.split_first()).is_some_and(|(major, minor)| {
        let library = [above, b"/python", &[*major], b".", minor].concat();
        sys_path.contains(&library)
    })
}

/// An entry of `sys.path` as the finder asks for it: without `..`, from the working directory.
pub fn absolute(cwd: &[u8], entry: &[u8]) -> Vec<u8> {
    match entry.first() {
        Some(b'/') => clean(entry).into_owned(),
        _ => clean(&[cwd, b"/", entry].concat()).into_owned(),
    }
}
