//! The entries of `sys.path`, what was asked of each, and what one more costs.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use recording::query::clean;
use recording::query::python::{ModuleDirectories, directory_and_stem};
use recording::{Exec, Recording, shown};

use crate::ask::ImportOperation;
use crate::attribute::PlacedOperation;
use crate::hook::{HookMark, Marks};
use crate::reason::LookupReason;
use crate::runs::{PythonRuns, variable};
use crate::scan::{ScannedPathEntry, Slope};
use crate::tree::ImportTally;

/// What is known of `sys.path` before anything is counted.
pub(crate) struct SysPathEntries<'a> {
    /// In their order.
    list: Vec<Cow<'a, [u8]>>,
    /// Those that PYTHONPATH names.
    given: HashSet<Cow<'a, [u8]>>,
}

impl<'a> SysPathEntries<'a> {
    /// Those that the hook told of, and those of each PYTHONPATH.
    pub(crate) fn of(
        recording: &'a Recording,
        runs: &PythonRuns<'a>,
        asks: &[ImportOperation<'a>],
        marks: Option<&Marks>,
    ) -> SysPathEntries<'a> {
        let is_hook = |entry: &[u8]| marks.is_some_and(|marks| marks.read(entry).is_some());
        let mut given: Vec<Cow<[u8]>> = Vec::new();
        let mut seen: HashSet<(Option<&str>, &[u8])> = HashSet::new();
        for run in runs.all.iter().filter(|run| run.is_python) {
            let list = variable(run.exec, "PYTHONPATH");
            let cwd = cwd(recording, run.exec);
            // Thousands of ranks have one environment.
            if seen.insert((list, cwd)) {
                let entries = list.unwrap_or_default().split(':').map(str::as_bytes);
                let entries = entries.filter(|entry| !entry.is_empty() && !is_hook(entry));
                given.extend(entries.map(|entry| absolute(cwd, entry)));
            }
        }
        let mut told: Vec<(u32, std::cmp::Reverse<usize>, Cow<[u8]>)> = Vec::new();
        for ask in asks {
            if let Some(HookMark::Path(place, entry)) = ask.mark {
                let entry = absolute(cwd(recording, runs.run(ask.run).exec), entry);
                told.push((place, std::cmp::Reverse(told.len()), entry));
            }
        }
        // What was put in later is before what was at that place.
        told.sort();
        let told = told.into_iter().map(|(_, _, entry)| entry);
        let mut known = HashSet::new();
        let list = told.chain(given.iter().cloned()).filter(|entry| known.insert(entry.clone()));
        SysPathEntries { list: list.collect(), given: given.into_iter().collect() }
    }

    /// All that are known.
    pub(crate) fn known(&self) -> HashSet<&[u8]> {
        self.list.iter().map(|entry| &entry[..]).collect()
    }

    /// What was asked of each. Directories that every installation has are entries, too.
    pub(crate) fn count(
        &self,
        in_imports: &[&PlacedOperation],
        places: &ModuleDirectories,
    ) -> Vec<ScannedPathEntry> {
        let mut order: Vec<&[u8]> = self.list.iter().map(|entry| &entry[..]).collect();
        let mut counted: HashMap<&[u8], EntryCounts> =
            order.iter().map(|entry| (*entry, EntryCounts::default())).collect();
        for placed in in_imports {
            let path = placed.ask.path;
            let Some(top) = places.top(path) else { continue };
            // A directory that only looks like one, and is not there, is none: the interpreter
            // tries some before it knows its prefix.
            if !counted.contains_key(top) && !placed.ask.is_yes() {
                continue;
            }
            let counted = counted.entry(top).or_insert_with(|| {
                order.push(top);
                EntryCounts::default()
            });
            counted.take_in(placed, top);
        }
        let entry = |path: &[u8]| {
            let counted = counted.get(path)?;
            Some(ScannedPathEntry {
                path: shown(path),
                from_pythonpath: self.given.contains(path),
                counts: counted.tally.counts(),
                itself: counted.itself,
                found: counted.found.len() as u64,
            })
        };
        order.into_iter().filter_map(entry).collect()
    }
}

#[derive(Default)]
struct EntryCounts<'a> {
    tally: ImportTally,
    itself: u64,
    /// First parts of the names of modules that were there.
    found: HashSet<&'a [u8]>,
}

impl<'a> EntryCounts<'a> {
    fn take_in(&mut self, placed: &PlacedOperation<'a>, top: &[u8]) {
        let ask = &placed.ask;
        self.tally.add(ask.event);
        self.itself += u64::from(ask.path == top);
        let is_file = matches!(placed.reason, LookupReason::Source | LookupReason::Extension);
        if is_file && ask.is_yes() && directory_and_stem(ask.path).is_some() {
            let below = ask.path.get(top.len()..).unwrap_or_default();
            let part =
                below.split(|byte| matches!(byte, b'/' | b'.')).find(|part| !part.is_empty());
            self.found.extend(part);
        }
    }
}

/// What one entry more costs: what was asked of the directories of PYTHONPATH's, each for itself;
/// of the entry that was asked most where there are none, since PYTHONPATH's come early.
pub(crate) fn slope(entries: &[ScannedPathEntry]) -> Option<Slope> {
    let given: Vec<u64> =
        entries.iter().filter(|entry| entry.from_pythonpath).map(|entry| entry.itself).collect();
    let of_pythonpath = !given.is_empty();
    let chosen = match of_pythonpath {
        true => given,
        false => entries.iter().map(|entry| entry.itself).max().into_iter().collect(),
    };
    let asked: u64 = chosen.iter().sum();
    (asked > 0).then(|| Slope {
        metadata_ops_per_entry: asked as f64 / chosen.len() as f64,
        entries: chosen.len() as u64,
        of_pythonpath,
    })
}

fn cwd<'a>(recording: &'a Recording, exec: Option<&Exec>) -> &'a [u8] {
    exec.map_or(b"/", |exec| recording.path(exec.cwd))
}

/// An entry as the finder asks for it.
fn absolute<'a>(cwd: &[u8], entry: &'a [u8]) -> Cow<'a, [u8]> {
    match entry.first() {
        Some(b'/') => clean(entry),
        _ => Cow::Owned(clean(&[cwd, b"/", entry].concat()).into_owned()),
    }
}
