//! Which run of which program each call belongs to, and which runs are Python's.

use std::collections::HashMap;

use recording::{Event, Exec, Nanos, ProcessId, Recording, Role};

use crate::hook::{HookMark, Marks};

/// A process from one exec to the next. A forked child that has not executed anything is a run
/// of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PythonRunId(pub(crate) usize);

/// One run.
#[derive(Clone)]
pub(crate) struct PythonRun<'a> {
    /// The process.
    pub process: ProcessId,
    /// The program: the parent's, for a child that has not executed anything.
    pub exec: Option<&'a Exec>,
    /// Whether the program is Python, by its name or because it ran the hook.
    pub is_python: bool,
    /// Whether it said what it imports.
    pub is_marked: bool,
    /// The run that it was forked from.
    pub forked_from: Option<PythonRunId>,
    /// The entries of its PYTHONPATH that come before the hook's directory.
    pub ahead: Vec<&'a [u8]>,
}

/// The runs of a recording.
pub(crate) struct PythonRuns<'a> {
    recording: &'a Recording,
    pub all: Vec<PythonRun<'a>>,
    /// Of each process, its first run: what it was forked as, then one run an exec.
    first: Vec<usize>,
}

impl<'a> PythonRuns<'a> {
    pub(crate) fn of(recording: &'a Recording, marks: Option<&Marks>) -> PythonRuns<'a> {
        let mut runs = PythonRuns {
            recording,
            all: Vec::new(),
            first: Vec::with_capacity(recording.processes.len()),
        };
        for process in &recording.processes {
            // A parent's number is below its child's, so its runs are known.
            let forked_from = process.parent.map(|parent| runs.at(parent, process.started));
            let exec = forked_from.and_then(|from| runs.all[from.0].exec);
            runs.first.push(runs.all.len());
            runs.push(process.id, exec, forked_from);
            for exec in &process.execs {
                runs.push(process.id, Some(exec), None);
            }
        }
        runs.see_marks(marks);
        runs
    }

    fn push(
        &mut self,
        process: ProcessId,
        exec: Option<&'a Exec>,
        forked_from: Option<PythonRunId>,
    ) {
        let is_python = exec.is_some_and(|exec| Role::of(self.recording, exec) == Role::Python);
        self.all.push(PythonRun {
            process,
            exec,
            is_python,
            is_marked: false,
            forked_from,
            ahead: Vec::new(),
        });
    }

    /// Runs that the hook ran in are Python's, whatever the program is called.
    fn see_marks(&mut self, marks: Option<&Marks>) {
        let Some(marks) = marks else { return };
        let mut starts = HashMap::new();
        for event in &self.recording.events {
            let Some(path) = event.path else { continue };
            let is_start = *starts
                .entry(path)
                .or_insert_with(|| marks.read(self.recording.path(path)) == Some(HookMark::Start));
            if is_start {
                let run = self.of_event(event);
                self.all[run.0].is_python = true;
                self.all[run.0].is_marked = true;
            }
        }
        for run in &mut self.all {
            let list = variable(run.exec, "PYTHONPATH").unwrap_or_default().split(':');
            let ahead = list.clone().map(str::as_bytes);
            let ahead = ahead.take_while(|entry| marks.read(entry) != Some(HookMark::Directory));
            let ahead: Vec<_> = ahead.collect();
            if ahead.len() < list.count() {
                run.ahead = ahead;
            }
        }
        // A forked child imports with the hook of its parent.
        for at in 0..self.all.len() {
            if let Some(from) = self.all[at].forked_from {
                self.all[at].is_python |= self.all[from.0].is_python;
                self.all[at].is_marked |= self.all[from.0].is_marked;
            }
        }
    }

    /// The run that made a call.
    pub(crate) fn of_event(&self, event: &Event) -> PythonRunId {
        self.at(event.process, event.start)
    }

    fn at(&self, process: ProcessId, at: Nanos) -> PythonRunId {
        let execs = &self.recording.process(process).execs;
        let number = execs.partition_point(|exec| exec.at <= at);
        PythonRunId(self.first[process.0 as usize] + number)
    }

    /// The run of that number.
    pub(crate) fn run(&self, id: PythonRunId) -> &PythonRun<'a> {
        &self.all[id.0]
    }
}

/// A variable of a program's environment, if it is set.
pub(crate) fn variable<'a>(exec: Option<&'a Exec>, name: &str) -> Option<&'a str> {
    exec?.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}
