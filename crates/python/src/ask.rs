//! The metadata operations of Python's runs, in the order in which they were made.

use std::borrow::Cow;

use recording::query::clean;
use recording::query::python::split;
use recording::{Event, Kind, PathId, Phase, Recording};

use crate::hook::{HookMark, Marks};
use crate::runs::{PythonRunId, PythonRuns};

/// One metadata operation.
#[derive(Clone, Copy)]
pub(crate) struct ImportOperation<'a> {
    /// The call.
    pub event: &'a Event,
    /// What it asked.
    pub kind: Kind,
    /// The path without `..`; empty where the recorder could not read it.
    pub path: &'a [u8],
    /// Who asked.
    pub run: PythonRunId,
    /// What it means, if it is the hook's.
    pub mark: Option<HookMark<'a>>,
}

impl<'a> ImportOperation<'a> {
    pub(crate) fn is_yes(&self) -> bool {
        !self.event.outcome.failed()
    }

    /// The path's directory and last component.
    pub(crate) fn split(&self) -> (&'a [u8], &'a [u8]) {
        split(self.path)
    }

    /// Whether a directory's entries are asked for.
    pub(crate) fn is_listing(&self) -> bool {
        self.event.is_listing()
    }

    /// Whether the dynamic loader asked before the program began.
    pub(crate) fn is_start(&self) -> bool {
        self.event.in_loader && self.event.phase == Phase::Loading
    }
}

/// The distinct paths of a recording, without `..`.
pub(crate) struct NormalizedPaths<'a>(Vec<Cow<'a, [u8]>>);

impl<'a> NormalizedPaths<'a> {
    pub(crate) fn of(recording: &'a Recording) -> NormalizedPaths<'a> {
        NormalizedPaths(recording.paths().map(clean).collect())
    }

    pub(crate) fn get(&self, id: PathId) -> &[u8] {
        self.0.get(id.0 as usize).map_or(b"", |path| path)
    }
}

/// All metadata operations of Python's runs, marks among them.
pub(crate) fn asks<'a>(
    recording: &'a Recording,
    paths: &'a NormalizedPaths<'a>,
    runs: &PythonRuns<'a>,
    marks: Option<&Marks>,
) -> Vec<ImportOperation<'a>> {
    // A mark is an access(2), and what Python asks of the hook's directory is metadata too.
    let metadata = recording.events.iter().filter(|event| event.is_metadata());
    let asks = metadata.filter_map(|event| {
        let run = runs.of_event(event);
        runs.run(run).is_python.then(|| ImportOperation {
            event,
            kind: event.kind(),
            path: event.path.map_or(b"", |path| paths.get(path)),
            run,
            mark: marks.and_then(|marks| marks.read(recording.path(event.path?))),
        })
    });
    let mut asks: Vec<_> = asks.collect();
    // Events are in the order in which they ended, or were reported.
    asks.sort_by_key(|ask| ask.event.start);
    asks
}
