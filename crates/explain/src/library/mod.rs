//! How the dynamic loader searched for libraries, and which list of directories made it do so.
//!
//! Who needed a library ([`needs`]), and then which list a probed directory is from ([`lists`]),
//! follows from what the mapped files say of themselves and from glibc's rules.

mod lists;
mod needs;

use std::collections::{BTreeMap, HashMap, HashSet};

use recording::{Cause, Exec, Kind, Nanos, PathId, Phase, ProcessId};

use crate::survey::{Ask, AskId, Survey};
use crate::tally::{Count, Tally};
use lists::Lists;
use needs::Needs;

pub(crate) use lists::List;

/// What the search in one list came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Searched {
    /// Directories in the list.
    pub directories: u64,
    pub asks: u64,
    pub missing: u64,
}

/// What the search for one library came to, over all processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub asks: u64,
    pub missing: u64,
    /// The directories it was looked for in, sub-directories for processor types not counted.
    pub directories: HashSet<Vec<u8>>,
    /// The file that needed it first, where that is known.
    pub needed_by: Option<PathId>,
}

/// All searches of one phase.
#[derive(Default)]
pub(crate) struct Search<'a> {
    pub claim: Vec<AskId>,
    /// Opens that found something: what would remain with no search at all.
    pub found: u64,
    /// Questions for sub-directories for processor types (`glibc-hwcaps/x86-64-v3`).
    pub hwcaps: u64,
    pub lists: BTreeMap<List, Searched>,
    pub libraries: HashMap<&'a [u8], Wanted>,
    /// The directories of LD_LIBRARY_PATH in its order: questions, and those that found nothing.
    pub library_path: Vec<(Vec<u8>, Count)>,
    /// The programs that it was done for.
    pub programs: Tally<PathId>,
}

/// One program of one process.
type RunId = (ProcessId, Option<Nanos>);

/// What one program's loader did.
#[derive(Default)]
struct Run<'a> {
    exec: Option<&'a Exec>,
    /// What is to be explained.
    asks: Vec<AskId>,
    /// The libraries it opened, in either phase: name and file, in order.
    opened: Vec<(&'a [u8], PathId)>,
}

/// The loader's searches of that phase that are still free.
pub(crate) fn search<'a>(survey: &Survey<'a>, phase: Phase) -> Search<'a> {
    let cause = match phase {
        Phase::Loading => Cause::LoaderStart,
        Phase::Running => Cause::LoaderDlopen,
    };
    let mut runs: BTreeMap<RunId, Run> = BTreeMap::new();
    let mut search = Search::default();
    for (id, ask) in survey.free().filter(|(_, ask)| ask.event.in_loader) {
        let run = runs.entry((ask.process(), ask.exec.map(|exec| exec.at))).or_default();
        run.exec = ask.exec;
        if let (Kind::Open, true, Some(path)) = (ask.kind, ask.is_yes(), ask.event.path) {
            run.opened.push((ask.split().1, path));
        }
        if ask.why.cause == cause {
            run.asks.push(id);
            search.claim.push(id);
        }
    }
    for run in runs.into_values().filter(|run| !run.asks.is_empty()) {
        search.take(survey, &run, phase);
    }
    search
}

impl<'a> Search<'a> {
    fn take(&mut self, survey: &Survey<'a>, run: &Run<'a>, phase: Phase) {
        let Some(exec) = run.exec else { return };
        let needs = Needs::of(survey.recording, exec.image, &run.opened);
        // Before the program runs, who needs what is all there is to know.
        let callers = if phase == Phase::Running { &run.opened[..] } else { &[] };
        let mut lists = Lists::of(survey.recording, exec, callers);
        for directory in lists.library_path() {
            if !self.library_path.iter().any(|(known, _)| known == directory) {
                self.library_path.push((directory.clone(), Count::default()));
            }
        }
        // A stat of a directory belongs to the library that the thread looks for.
        let mut looking: HashMap<u32, &[u8]> = HashMap::new();
        for id in &run.asks {
            let ask = &survey.asks[*id];
            let is_open = ask.kind == Kind::Open;
            let last = looking.get(&ask.event.thread).copied().unwrap_or_default();
            let (directory, library) = if is_open { ask.split() } else { (ask.path, last) };
            looking.insert(ask.event.thread, library);
            if is_housekeeping(ask) || library.is_empty() {
                continue;
            }
            let found = is_open && ask.is_yes();
            self.found += u64::from(found);
            self.programs.add(exec.image, ask.is_missing());
            let place = lists.place(directory, &needs.chain(library));
            self.count_directory(&place, found);
            self.count(library, place, ask.is_missing(), needs.by(library));
        }
    }

    /// The library with most 'no'.
    pub fn worst_library(&self) -> Option<(&'a [u8], &Wanted)> {
        let libraries = self.libraries.iter().map(|(name, wanted)| (*name, wanted));
        libraries.max_by_key(|(name, wanted)| (wanted.missing, std::cmp::Reverse(*name)))
    }

    /// Counts for a directory of LD_LIBRARY_PATH. That it is there (a stat) is not that it has it.
    fn count_directory(&mut self, place: &lists::Place, found: bool) {
        let mut directories = self.library_path.iter_mut();
        if let (List::LibraryPath, Some((_, directory))) =
            (place.list, directories.find(|(directory, _)| *directory == place.directory))
        {
            directory.add(!found);
        }
    }

    fn count(
        &mut self,
        library: &'a [u8],
        place: lists::Place,
        is_missing: bool,
        needed_by: Option<PathId>,
    ) {
        let missing = u64::from(is_missing);
        self.hwcaps += u64::from(place.is_hwcaps);
        let list = self.lists.entry(place.list).or_default();
        list.directories = place.directories;
        list.asks += 1;
        list.missing += missing;
        let wanted = self.libraries.entry(library).or_default();
        wanted.asks += 1;
        wanted.missing += missing;
        wanted.directories.insert(place.directory);
        wanted.needed_by = wanted.needed_by.or(needed_by);
    }
}

/// `/etc/ld.so.cache` and `/etc/ld.so.preload`: asked once a start, whatever is searched.
fn is_housekeeping(ask: &Ask) -> bool {
    let (_, name) = ask.split();
    name == b"ld.so.cache" || name == b"ld.so.preload"
}
