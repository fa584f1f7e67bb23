//! Causes of many calls: each distinct combination is worked out once.

use std::collections::HashMap;

use crate::cause::attribute_as;
use crate::module_search::{ModuleSearch, PythonCall, SysPath};
use crate::query::clean;
use crate::{Attribution, Event, Exec, Kind, Nanos, PathId, Phase, ProcessId, Recording, Role};

/// Answers [`Recording::attribute`] and [`Recording::program`] for many calls, fast: a million
/// calls have only a few thousand distinct combinations.
pub struct Attributor<'a> {
    recording: &'a Recording,
    /// Every exec of every process, one process after the other.
    programs: Vec<KnownProgram<'a>>,
    /// Of each process: where its execs begin in `programs`, and what it ran before the first.
    processes: Vec<ProgramRuns>,
    causes: HashMap<CauseInputs, Attribution>,
    modules: ModuleSearch,
}

struct KnownProgram<'a> {
    exec: &'a Exec,
    role: Role,
}

#[derive(Clone, Copy)]
struct ProgramRuns {
    first: usize,
    inherited: Option<usize>,
}

/// All that a cause depends on.
#[derive(PartialEq, Eq, Hash)]
struct CauseInputs {
    path: Option<PathId>,
    role: Role,
    kind: Kind,
    phase: Phase,
    in_loader: bool,
    is_nofollow: bool,
    is_listing: bool,
    is_change: bool,
}

impl<'a> Attributor<'a> {
    /// Looks at the programs of a recording.
    pub fn new(recording: &'a Recording) -> Attributor<'a> {
        let mut attributor = Attributor {
            recording,
            programs: Vec::new(),
            processes: Vec::with_capacity(recording.processes.len()),
            causes: HashMap::new(),
            modules: ModuleSearch::default(),
        };
        for process in &recording.processes {
            // A parent's number is below its child's, so its programs are known.
            let inherited =
                process.parent.and_then(|parent| attributor.at(parent, process.started));
            let first = attributor.programs.len();
            attributor.programs.extend(
                process
                    .execs
                    .iter()
                    .map(|exec| KnownProgram { exec, role: Role::of(recording, exec) }),
            );
            attributor.processes.push(ProgramRuns { first, inherited });
        }
        attributor.modules = attributor.search();
        attributor
    }

    /// Where its Pythons looked for modules.
    fn search(&self) -> ModuleSearch {
        let recording = self.recording;
        if !self.programs.iter().any(|program| program.role == Role::Python) {
            return ModuleSearch::default();
        }
        let paths: Vec<_> = recording.paths().map(clean).collect();
        let own = recording.events.iter().filter(|event| event.is_metadata() && !event.in_loader);
        let calls = own.filter_map(|event| {
            let program = &self.programs[self.at(event.process, event.start)?];
            let path = event.path.and_then(|path| paths.get(path.0 as usize))?;
            (program.role == Role::Python).then_some(PythonCall { event, path, exec: program.exec })
        });
        ModuleSearch::of(recording, &calls.collect::<Vec<_>>(), &[])
    }

    /// The entries of `sys.path` that its Pythons searched.
    pub fn into_sys_path(self) -> SysPath {
        self.modules.sys_path
    }

    /// Why a call was made: [`Recording::attribute`].
    pub fn attribute(&mut self, event: &Event) -> Attribution {
        let role = match self.at(event.process, event.start) {
            Some(program) => self.programs[program].role,
            None => Role::Other,
        };
        let inputs = CauseInputs {
            path: event.path,
            role,
            kind: event.kind(),
            phase: event.phase,
            in_loader: event.in_loader,
            is_nofollow: event.is_nofollow(),
            is_listing: event.is_listing(),
            is_change: event.is_change(),
        };
        let (recording, modules) = (self.recording, &self.modules);
        *self.causes.entry(inputs).or_insert_with(|| {
            let path = event.path.map_or(&b""[..], |path| recording.path(path));
            let is_import = || modules.is_import(event, &clean(path));
            attribute_as(role, event, path, is_import)
        })
    }

    /// The program that a process runs at a moment: [`Recording::program`].
    pub fn program(&self, process: ProcessId, at: Nanos) -> Option<&'a Exec> {
        self.at(process, at).map(|program| self.programs[program].exec)
    }

    /// What kind of program a process runs at a moment.
    pub fn role(&self, process: ProcessId, at: Nanos) -> Role {
        self.at(process, at).map_or(Role::Other, |program| self.programs[program].role)
    }

    /// The place in `programs` of what a process runs at a moment.
    pub(crate) fn at(&self, process: ProcessId, at: Nanos) -> Option<usize> {
        let runs = self.processes.get(process.0 as usize)?;
        let execs = &self.recording.processes[process.0 as usize].execs;
        match execs.partition_point(|exec| exec.at <= at) {
            0 => runs.inherited,
            before => Some(runs.first + before - 1),
        }
    }

    /// The places of all that a process ran: its execs, or what it was forked as.
    pub(crate) fn programs_of(&self, process: ProcessId) -> impl Iterator<Item = Option<usize>> {
        let runs = self.processes[process.0 as usize];
        let execs = self.recording.processes[process.0 as usize].execs.len();
        let inherited = (execs == 0).then_some(runs.inherited);
        inherited.into_iter().chain((runs.first..runs.first + execs).map(Some))
    }

    /// The exec at a place that [`Attributor::at`] gave.
    pub(crate) fn exec(&self, program: usize) -> &'a Exec {
        self.programs[program].exec
    }
}
