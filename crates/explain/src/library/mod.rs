//! How the dynamic loader searched for libraries, and which list of directories made it do so.
//!
//! Who needed a library ([`needs`]), and then which list a probed directory is from ([`lists`]),
//! follows from what the mapped files say of themselves and from glibc's rules.

mod lists;
mod needs;

use std::collections::{BTreeMap, HashMap, HashSet};

use recording::{Cause, Exec, Kind, Nanos, PathId, Phase, ProcessId};

use crate::survey::{MetadataOp, OpId, OpSurvey};
use crate::tally::{OpCount, OpTally};
use lists::SearchLists;
use needs::NeededBy;

pub(crate) use lists::SearchList;

/// What the search in one list came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListSearch {
    /// DirectorySet in the list.
    pub directories: u64,
    pub ops: u64,
    pub failed: u64,
}

/// What the search for one library came to, over all processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct LibrarySearch {
    pub ops: u64,
    pub failed: u64,
    /// The directories it was looked for in, sub-directories for processor types not counted.
    pub directories: HashSet<Vec<u8>>,
    /// The file that needed it first, where that is known.
    pub needed_by: Option<PathId>,
}

/// All searches of one phase.
#[derive(Default)]
pub(crate) struct LoaderSearch<'a> {
    pub claim: Vec<OpId>,
    /// Opens that found something: what would remain with no search at all.
    pub found: u64,
    /// Operations in sub-directories for processor types (`glibc-hwcaps/x86-64-v3`).
    pub hwcaps: u64,
    pub lists: BTreeMap<SearchList, ListSearch>,
    pub libraries: HashMap<&'a [u8], LibrarySearch>,
    /// The directories of LD_LIBRARY_PATH in its order: operations, and those that found nothing.
    pub library_path: Vec<(Vec<u8>, OpCount)>,
    /// The programs that it was done for.
    pub programs: OpTally<PathId>,
}

/// One program of one process.
type ProgramRunId = (ProcessId, Option<Nanos>);

/// What one program's loader did.
#[derive(Default)]
struct ProgramRun<'a> {
    exec: Option<&'a Exec>,
    /// What is to be explained.
    ops: Vec<OpId>,
    /// The libraries it opened, in either phase: name and file, in order.
    opened: Vec<(&'a [u8], PathId)>,
}

/// The loader's searches of that phase that are still free.
pub(crate) fn search<'a>(survey: &OpSurvey<'a>, phase: Phase) -> LoaderSearch<'a> {
    let cause = match phase {
        Phase::Loading => Cause::LoaderStart,
        Phase::Running => Cause::LoaderDlopen,
    };
    let mut runs: BTreeMap<ProgramRunId, ProgramRun> = BTreeMap::new();
    let mut search = LoaderSearch::default();
    for (id, op) in survey.free().filter(|(_, op)| op.event.in_loader) {
        let run = runs.entry((op.process(), op.exec.map(|exec| exec.at))).or_default();
        run.exec = op.exec;
        if let (Kind::Open, true, Some(path)) = (op.kind, op.succeeded(), op.event.path) {
            run.opened.push((op.split().1, path));
        }
        if op.why.cause == cause {
            run.ops.push(id);
            search.claim.push(id);
        }
    }
    for run in runs.into_values().filter(|run| !run.ops.is_empty()) {
        search.take(survey, &run, phase);
    }
    search
}

impl<'a> LoaderSearch<'a> {
    fn take(&mut self, survey: &OpSurvey<'a>, run: &ProgramRun<'a>, phase: Phase) {
        let Some(exec) = run.exec else { return };
        let needs = NeededBy::of(survey.recording, exec.image, &run.opened);
        // Before the program runs, who needs what is all there is to know.
        let callers = if phase == Phase::Running { &run.opened[..] } else { &[] };
        let mut lists = SearchLists::of(survey.recording, exec, callers);
        for directory in lists.library_path() {
            if !self.library_path.iter().any(|(known, _)| known == directory) {
                self.library_path.push((directory.clone(), OpCount::default()));
            }
        }
        // A stat of a directory belongs to the library that the thread looks for.
        let mut looking: HashMap<u32, &[u8]> = HashMap::new();
        for id in &run.ops {
            let op = survey.op(*id);
            let is_open = op.kind == Kind::Open;
            let last = looking.get(&op.event.thread).copied().unwrap_or_default();
            let (directory, library) = if is_open { op.split() } else { (op.path, last) };
            looking.insert(op.event.thread, library);
            if is_housekeeping(&op) || library.is_empty() {
                continue;
            }
            let found = is_open && op.succeeded();
            self.found += u64::from(found);
            self.programs.add(exec.image, op.is_enoent());
            let place = lists.place(directory, &needs.chain(library));
            self.count_directory(&place, found);
            self.count(library, place, op.is_enoent(), needs.by(library));
        }
    }

    /// The library with most failed lookups.
    pub fn worst_library(&self) -> Option<(&'a [u8], &LibrarySearch)> {
        let libraries = self.libraries.iter().map(|(name, wanted)| (*name, wanted));
        libraries.max_by_key(|(name, wanted)| (wanted.failed, std::cmp::Reverse(*name)))
    }

    /// Counts for a directory of LD_LIBRARY_PATH. That it is there (a stat) is not that it has it.
    fn count_directory(&mut self, place: &lists::ListedDirectory, found: bool) {
        let mut directories = self.library_path.iter_mut();
        if let (SearchList::LibraryPath, Some((_, directory))) =
            (place.list, directories.find(|(directory, _)| *directory == place.directory))
        {
            directory.add(!found);
        }
    }

    fn count(
        &mut self,
        library: &'a [u8],
        place: lists::ListedDirectory,
        has_failed: bool,
        needed_by: Option<PathId>,
    ) {
        let failed = u64::from(has_failed);
        self.hwcaps += u64::from(place.is_hwcaps);
        let list = self.lists.entry(place.list).or_default();
        list.directories = place.directories;
        list.ops += 1;
        list.failed += failed;
        let wanted = self.libraries.entry(library).or_default();
        wanted.ops += 1;
        wanted.failed += failed;
        wanted.directories.insert(place.directory);
        wanted.needed_by = wanted.needed_by.or(needed_by);
    }
}

/// `/etc/ld.so.cache` and `/etc/ld.so.preload`: opened once a start, whatever is searched.
fn is_housekeeping(op: &MetadataOp) -> bool {
    let (_, name) = op.split();
    name == b"ld.so.cache" || name == b"ld.so.preload"
}
