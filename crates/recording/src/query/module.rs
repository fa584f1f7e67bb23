//! Calls by the Python module or the modulefile that was being looked for.
//!
//! A file names its module: `…/site-packages/numpy/core/__init__.py` is `numpy.core`. What
//! Python asks of directories before it finds the file names none; it belongs to the module that
//! the thread names next, which is inferred, and right for 95 % of the calls where it was measured
//! against the interpreter's own account. A modulefile is named by its path below the
//! modulepath: `gcc/12.1`.

use std::collections::{HashMap, HashSet};

use super::modulefile::modulefile;
use super::python::{ModuleDirectories, package_of};
use super::search::SearchEnds;
use super::sum::{Groups, Keys, RowOfCall};
use crate::{Attributor, Cause, Event, Exec, Kind, PathId, ProcessId, Recording};

/// What Python asked of directories after the last module it found.
const UNNAMED: &[u8] = b"(no module named)";
/// What the module tool asks beside modulefiles: its own library, configuration, caches.
const TOOL: &[u8] = b"(module tool itself)";

pub(super) fn group(
    recording: &Recording,
    attributor: &mut Attributor,
    selected: &[bool],
) -> Groups {
    let packages = packages(recording);
    let mut pass = ModulePass {
        recording,
        packages: &packages,
        searched: HashMap::new(),
        keys: Keys::default(),
        names: HashMap::new(),
        places: vec![RowOfCall::NONE; recording.events.len()],
        waiting: HashMap::new(),
        searches: SearchEnds::default(),
    };
    for (at, event) in recording.events.iter().enumerate() {
        let cause = attributor.attribute(event).cause;
        if matches!(cause, Cause::PythonImport | Cause::ModuleTool) {
            let program = attributor.at(event.process, event.start);
            let row = pass.row(event, cause, program, attributor);
            pass.put(at, event, cause, row);
            if selected[at] {
                pass.note(event, row);
            }
        }
    }
    pass.end()
}

/// open(2)'s flag for directories.
const O_DIRECTORY: u64 = 0o200000;

/// The directories that hold an `__init__` file that was there: Python packages.
fn packages(recording: &Recording) -> HashSet<&[u8]> {
    let succeeded = |event: &&Event| event.is_metadata() && !event.outcome.failed();
    let paths: HashSet<PathId> =
        recording.events.iter().filter(succeeded).filter_map(|event| event.path).collect();
    paths.into_iter().filter_map(|path| package_of(recording.path(path))).collect()
}

/// Names depend on the path and on the program, whose environment says where searches begin.
type ModuleLookup = (PathId, Option<usize>);

struct ModulePass<'a> {
    recording: &'a Recording,
    packages: &'a HashSet<&'a [u8]>,
    /// Where each program finds its modules.
    searched: HashMap<Option<usize>, ModuleDirectories<'a>>,
    keys: Keys,
    names: HashMap<ModuleLookup, Option<u32>>,
    places: Vec<RowOfCall>,
    /// Calls that belong to the module that their thread names next.
    waiting: HashMap<(ProcessId, u32), Vec<usize>>,
    searches: SearchEnds,
}

impl ModulePass<'_> {
    /// The row of the module or modulefile that a call's path names.
    fn row(
        &mut self,
        event: &Event,
        cause: Cause,
        program: Option<usize>,
        attributor: &Attributor,
    ) -> Option<u32> {
        let path = event.path?;
        let name = || {
            let bytes = self.recording.path(path);
            let variable = |name| program.map_or("", |at| variable(attributor.exec(at), name));
            let name = match cause {
                Cause::ModuleTool => modulefile(variable("MODULEPATH"), bytes),
                _ => {
                    let of =
                        || ModuleDirectories::of_variable(variable("PYTHONPATH"), self.packages);
                    self.searched.entry(program).or_insert_with(of).module(bytes)
                }
            };
            name.map(|name| self.keys.row(&name))
        };
        *self.names.entry((path, program)).or_insert_with(name)
    }

    /// Puts a call in its row, or lets it wait for the next module of its thread.
    fn put(&mut self, at: usize, event: &Event, cause: Cause, row: Option<u32>) {
        let thread = (event.process, event.thread);
        self.places[at] = match (cause, row) {
            (Cause::ModuleTool, Some(row)) => RowOfCall::observed(row),
            (Cause::ModuleTool, None) => RowOfCall::observed(self.keys.row(TOOL)),
            (_, None) => {
                self.waiting.entry(thread).or_default().push(at);
                return;
            }
            // That a call is an import's is itself inferred from its path.
            (_, Some(row)) => RowOfCall::inferred(row),
        };
        // Calls on descriptors may be recorded late: the module they name is not the next one.
        if !event.is_metadata() {
            return;
        }
        let waiting = self.waiting.get_mut(&thread).into_iter().flat_map(|all| all.drain(..));
        for earlier in waiting {
            self.places[earlier] = self.places[at];
        }
    }

    /// Notes how the search for it goes.
    fn note(&mut self, event: &Event, row: Option<u32>) {
        let Some(row) = row.filter(|_| event.is_metadata()) else { return };
        self.searches.tried(row, 1);
        let ends = match event.kind() {
            Kind::Open => event.flags & O_DIRECTORY == 0,
            // An extension module is asked for by stat, and then opened by the loader.
            Kind::Stat => {
                event.path.is_some_and(|path| self.recording.path(path).ends_with(b".so"))
            }
            _ => false,
        };
        if ends && !event.outcome.failed() {
            self.searches.ended(row, event.path);
        }
    }

    fn end(mut self) -> Groups {
        for at in self.waiting.into_values().flatten() {
            self.places[at] = RowOfCall::inferred(self.keys.row(UNNAMED));
        }
        self.searches.write(self.recording, &mut self.keys.rows);
        Groups { rows: self.keys.rows, places: self.places }
    }
}

/// A variable of a program's environment; empty if it is not set.
fn variable<'a>(exec: &'a Exec, name: &str) -> &'a str {
    exec.env.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}
