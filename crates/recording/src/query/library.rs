//! Calls of the dynamic loader by the library it was looking for.
//!
//! The loader looks for one library at a time: it tries to open `directory/name` in directory after
//! directory until one can be opened. So the opens name the library, and what lies between two
//! opens of a thread belongs to the search it lies in: glibc asks whether a directory exists
//! right after the first open in it has failed (`open_path` of elf/dl-load.c).

use std::collections::HashMap;

use super::process::base_name;
use super::search::SearchEnds;
use super::sum::{Groups, Keys, RowOfCall};
use crate::{Attributor, Event, Kind, PathId, ProcessId, Recording};

/// Calls of the loader that concern no library.
const NONE: &[u8] = b"(no library)";

pub(super) fn group(recording: &Recording, attributor: &Attributor, selected: &[bool]) -> Groups {
    let mut pass = LibraryPass {
        recording,
        keys: Keys::default(),
        names: HashMap::new(),
        places: vec![RowOfCall::NONE; recording.events.len()],
        tries: Vec::new(),
        loaders: HashMap::new(),
    };
    for (at, event) in recording.events.iter().enumerate().filter(|(_, event)| event.in_loader) {
        let loader = LoaderOfThread {
            process: event.process,
            thread: event.thread,
            program: attributor.at(event.process, event.start),
        };
        pass.take(at, event, loader, selected[at]);
    }
    pass.end()
}

/// One thread's dynamic loader. After an exec it is another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct LoaderOfThread {
    process: ProcessId,
    thread: u32,
    program: Option<usize>,
}

#[derive(Default)]
struct LoaderState {
    /// The last search of this loader.
    last: Option<usize>,
    /// Calls that belong to the next one.
    waiting: Vec<usize>,
}

/// One search for one library.
struct Try {
    row: u32,
    first: PathId,
    probes: u64,
    found: Option<PathId>,
    selected: bool,
}

impl Try {
    /// Whether the next open, of a library of this name at this path, is a part of it. A file
    /// that was opened may have been refused (another architecture); but where the search
    /// began, or ended, another one begins.
    fn goes_on(&self, row: u32, path: PathId) -> bool {
        self.row == row && self.first != path && self.found != Some(path)
    }
}

struct LibraryPass<'a> {
    recording: &'a Recording,
    keys: Keys,
    names: HashMap<PathId, u32>,
    places: Vec<RowOfCall>,
    tries: Vec<Try>,
    loaders: HashMap<LoaderOfThread, LoaderState>,
}

impl LibraryPass<'_> {
    fn take(&mut self, at: usize, event: &Event, loader: LoaderOfThread, selected: bool) {
        let named = event.path.map(|path| (path, self.row(path)));
        let state = self.loaders.entry(loader).or_default();
        let last = state.last.map(|last| &mut self.tries[last]);
        let place = match (named, event.kind()) {
            (Some((path, row)), Kind::Open) => {
                let found = (!event.outcome.failed()).then_some(path);
                match last {
                    Some(last) if last.goes_on(row, path) => {
                        last.probes += 1;
                        last.found = found.or(last.found);
                        last.selected |= selected;
                    }
                    _ => {
                        state.last = Some(self.tries.len());
                        self.tries.push(Try { row, first: path, probes: 1, found, selected });
                    }
                }
                for waiting in state.waiting.drain(..) {
                    self.places[waiting] = RowOfCall::inferred(row);
                }
                RowOfCall::observed(row)
            }
            (Some((path, row)), kind)
                if !kind.is_metadata() || is_library(self.recording.path(path)) =>
            {
                RowOfCall::observed(row)
            }
            (Some(_), _) => match last {
                Some(last) if last.found.is_none() => RowOfCall::observed(last.row),
                _ => {
                    state.waiting.push(at);
                    return;
                }
            },
            (None, _) => RowOfCall::observed(self.keys.row(NONE)),
        };
        self.places[at] = place;
    }

    fn row(&mut self, path: PathId) -> u32 {
        let name = || base_name(self.recording.path(path));
        *self.names.entry(path).or_insert_with(|| self.keys.row(name()))
    }

    fn end(mut self) -> Groups {
        let waiting: Vec<usize> =
            self.loaders.values_mut().flat_map(|state| state.waiting.drain(..)).collect();
        for at in waiting {
            self.places[at] = RowOfCall::observed(self.keys.row(NONE));
        }
        let mut searches = SearchEnds::default();
        for one in self.tries.iter().filter(|one| one.selected) {
            searches.tried(one.row, one.probes);
            searches.ended(one.row, one.found);
        }
        searches.write(self.recording, &mut self.keys.rows);
        Groups { rows: self.keys.rows, places: self.places }
    }
}

/// Whether a path names a shared library rather than a directory: `libfoo.so`, `libfoo.so.1`.
fn is_library(path: &[u8]) -> bool {
    let name = base_name(path);
    name.ends_with(b".so") || name.windows(4).any(|part| part == b".so.")
}
