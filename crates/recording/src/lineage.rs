//! Who started whom, answered in a step: a chain of processes may be as long as the recording.

use std::ops::Range;

use crate::{Exec, Nanos, Process, ProcessId, Recording};

/// What a process has from those above it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inherited {
    /// The program that it ran when it was started: which process's, and which of its execs.
    program: Option<(ProcessId, usize)>,
    /// The nearest process, itself or above, whose line is known.
    told: Option<ProcessId>,
}

/// What each process has from those above it. A parent's number is below its child's.
pub(crate) fn inherited(processes: &[Process]) -> Vec<Inherited> {
    let mut all: Vec<Inherited> = Vec::with_capacity(processes.len());
    for process in processes {
        let above = process.parent.map(|parent| (parent, all[parent.0 as usize]));
        let has_line = process.origin.as_ref().is_some_and(|origin| !origin.frames.is_empty());
        all.push(Inherited {
            program: above.and_then(|(parent, above)| {
                at(&processes[parent.0 as usize], &above, process.started)
            }),
            told: has_line.then_some(process.id).or(above.and_then(|(_, above)| above.told)),
        });
    }
    all
}

fn at(process: &Process, inherited: &Inherited, at: Nanos) -> Option<(ProcessId, usize)> {
    match process.execs.partition_point(|exec| exec.at <= at) {
        0 => inherited.program,
        before => Some((process.id, before - 1)),
    }
}

impl Recording {
    /// The program that a process runs at a moment: its last exec before it, else the one that
    /// its parent ran when it was forked.
    pub fn program(&self, process: ProcessId, at: Nanos) -> Option<&Exec> {
        let inherited = self.inherited.get(process.0 as usize)?;
        let (process, exec) = self::at(self.process(process), inherited, at)?;
        self.process(process).execs.get(exec)
    }

    /// The program that the command is: of `becalm run`, what that runs in its place.
    pub fn command_program(&self) -> Option<&Exec> {
        let execs = &self.processes.first()?.execs;
        execs.iter().find(|exec| !exec.is_becalm_run()).or(execs.first())
    }

    /// The nearest process, itself or above it, of which it is known which line started it.
    pub fn told(&self, process: ProcessId) -> Option<&Process> {
        Some(self.process(self.inherited.get(process.0 as usize)?.told?))
    }

    /// The process whose program it ran when it was started: the nearest above it that had executed anything
    /// by then. (A subshell may become its last command.)
    pub fn started_in(&self, process: ProcessId) -> Option<ProcessId> {
        Some(self.inherited.get(process.0 as usize)?.program?.0)
    }
}

/// The tree of a recording's processes, as one walk from its roots down.
pub struct Descent {
    /// Of each process its place in the walk, and how many are walked with it: those below it.
    places: Vec<Range<usize>>,
}

impl Descent {
    /// The walk through a recording's processes.
    pub fn of(recording: &Recording) -> Descent {
        let processes = &recording.processes;
        let mut sizes = vec![1; processes.len()];
        for process in processes.iter().rev() {
            if let Some(parent) = process.parent {
                sizes[parent.0 as usize] += sizes[process.id.0 as usize];
            }
        }
        // Where the next child of each process goes, and the next root.
        let mut free = vec![0; processes.len()];
        let mut free_root = 0;
        let mut places = Vec::with_capacity(processes.len());
        for process in processes {
            let id = process.id.0 as usize;
            let next = match process.parent {
                Some(parent) => &mut free[parent.0 as usize],
                None => &mut free_root,
            };
            let place = *next..*next + sizes[id];
            *next = place.end;
            free[id] = place.start + 1;
            places.push(place);
        }
        Descent { places }
    }

    /// A process's place in the walk, and those of all below it.
    pub fn places(&self, process: ProcessId) -> Range<usize> {
        self.places[process.0 as usize].clone()
    }

    /// The processes in the order of the walk: each before those below it.
    pub fn walk(&self) -> Vec<ProcessId> {
        let mut order = vec![ProcessId(0); self.places.len()];
        for (id, place) in self.places.iter().enumerate() {
            order[place.start] = ProcessId(id as u32);
        }
        order
    }
}
