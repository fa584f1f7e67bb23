//! The entries of `sys.path`, what was asked of each, and what one more costs.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use recording::module_search::{SysPath, absolute};
use recording::query::python::directory_and_stem;
use recording::{Recording, shown};

use crate::ask::ImportOperation;
use crate::attribute::PlacedOperation;
use crate::hook::HookMark;
use crate::runs::PythonRuns;
use crate::scan::{ScannedPathEntry, Slope};
use crate::tree::ImportTally;
use recording::module_search::LookupReason;

/// The entries that the hook told of, in their order.
pub(crate) fn told_entries<'a>(
    recording: &'a Recording,
    runs: &PythonRuns<'a>,
    asks: &[ImportOperation<'a>],
) -> Vec<Vec<u8>> {
    let mut told: Vec<(u32, Reverse<usize>, Vec<u8>)> = Vec::new();
    for ask in asks {
        if let Some(HookMark::Path(place, entry)) = ask.mark {
            let cwd = runs.run(ask.run).exec.map_or(&b"/"[..], |exec| recording.path(exec.cwd));
            told.push((place, Reverse(told.len()), absolute(cwd, entry)));
        }
    }
    // What was put in later is before what was at that place.
    told.sort();
    told.into_iter().map(|(_, _, entry)| entry).collect()
}

/// What was asked of each entry for imports.
pub(crate) fn count_entries(
    sys_path: &SysPath,
    in_imports: &[&PlacedOperation],
) -> Vec<ScannedPathEntry> {
    let mut counted: HashMap<&[u8], EntryCounts> = HashMap::new();
    for placed in in_imports {
        if let Some(top) = sys_path.entry_of(placed.ask.path) {
            counted.entry(top).or_default().take_in(placed, top);
        }
    }
    let entry = |path: &Vec<u8>| {
        let counted = counted.remove(&path[..]).unwrap_or_default();
        ScannedPathEntry {
            path: shown(path),
            from_pythonpath: sys_path.is_from_pythonpath(path),
            counts: counted.tally.counts(),
            itself: counted.itself,
            found: counted.found.len() as u64,
        }
    };
    sys_path.entries().iter().map(entry).collect()
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
