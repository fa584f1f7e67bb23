//! What the time of a start went to.

use std::collections::HashMap;

use recording::{
    Attributor, Cause, Kind, Nanos, Outcome, Phase, Process, ProcessId, Recording, Usage,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The time of starts, by what it went to. The recorder's own stops are in it.
///
/// The parts of one process follow each other; those of several add up, also where the processes
/// ran side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Phases {
    /// From the parent's call to the child's birth: mostly the copy of the page tables.
    #[serde(rename = "fork_ns")]
    pub fork: Nanos,
    /// From the child's birth to its first execve: redirections, the search over PATH. Of a
    /// subshell that has waited for children before, from the end of the last one; and no longer than
    /// the process ran in all its life, but for the recorder's stops: what is longer, it waited.
    #[serde(rename = "setup_ns")]
    pub setup: Nanos,
    /// In execve, until the new program took over.
    #[serde(rename = "exec_ns")]
    pub exec: Nanos,
    /// From there until all libraries were loaded.
    #[serde(rename = "loader_ns")]
    pub loader: Nanos,
    /// In calls on files of locales.
    #[serde(rename = "locale_ns")]
    pub locale: Nanos,
    /// All else, without the lives of its own children.
    #[serde(rename = "work_ns")]
    pub work: Nanos,
    /// The part of that in which it had no processor: it slept, or waited for input, a file or its
    /// turn. What it took beyond all its processor time; so it waited for so long at least.
    #[serde(rename = "waiting_ns")]
    pub waiting: Nanos,
}

impl Phases {
    /// What is paid before a program does anything of its own.
    pub fn start(&self) -> Nanos {
        self.fork + self.setup + self.exec + self.loader + self.locale
    }

    /// What a program did of its own, without its waiting.
    pub fn own_work(&self) -> Nanos {
        Nanos(self.work.0.saturating_sub(self.waiting.0))
    }
}

impl std::ops::AddAssign for Phases {
    fn add_assign(&mut self, other: Phases) {
        self.fork += other.fork;
        self.setup += other.setup;
        self.exec += other.exec;
        self.loader += other.loader;
        self.locale += other.locale;
        self.work += other.work;
        self.waiting += other.waiting;
    }
}

/// The recorder's stops of a process before its first execve take less.
const STOPS: Nanos = Nanos(2_000_000);

/// What calls say of the processes' phases, gathered in one pass.
pub(super) struct PhaseMoments {
    /// By parent and child's pid: when the parent's call began, in the order of the calls.
    forks: HashMap<(ProcessId, u32), Vec<Nanos>>,
    of: Vec<ExecMoments>,
}

/// Of one process.
#[derive(Clone, Default)]
struct ExecMoments {
    /// When each execve that went well was called.
    execs: Vec<Nanos>,
    /// By the number of execs so far: when the loader was done.
    loaded: Vec<(usize, Nanos)>,
    locale: Nanos,
    /// Programs that were tried and not there.
    missing: u64,
}

impl PhaseMoments {
    pub fn of(recording: &Recording) -> PhaseMoments {
        let mut moments = PhaseMoments {
            forks: HashMap::new(),
            of: vec![ExecMoments::default(); recording.processes.len()],
        };
        let mut attributor = Attributor::new(recording);
        for event in &recording.events {
            let Some(own) = moments.of.get_mut(event.process.0 as usize) else { continue };
            match (event.kind(), event.outcome) {
                (Kind::Fork, Outcome::Returned(child)) => {
                    let key = (event.process, child as u32);
                    moments.forks.entry(key).or_default().push(event.start);
                }
                (Kind::Exec, Outcome::Returned(_)) => own.execs.push(event.start),
                (Kind::Exec, Outcome::Failed(_)) => own.missing += u64::from(event.is_missing()),
                _ => {}
            }
            if attributor.attribute(event).cause == Cause::Locale {
                own.locale += event.took;
            }
            if event.phase == Phase::Running {
                let process = recording.process(event.process);
                let execs = process.execs.partition_point(|exec| exec.at <= event.start);
                match own.loaded.iter_mut().find(|(number, _)| *number == execs) {
                    Some((_, at)) => *at = (*at).min(event.start),
                    None => own.loaded.push((execs, event.start)),
                }
            }
        }
        moments
    }

    /// How many programs a process tried to execute that were not there.
    pub fn missing(&self, process: &Process) -> u64 {
        self.of.get(process.id.0 as usize).map_or(0, |own| own.missing)
    }

    /// What the time of a process went to; `children` are its own.
    pub fn phases(&self, process: &Process, children: &[&Process]) -> Phases {
        let mut phases = Phases::default();
        let Some(own) = self.of.get(process.id.0 as usize) else { return phases };
        let ended = process.end.map_or(process.started, |end| end.at);
        phases.fork = self.fork(process).map_or(Nanos(0), |began| since(began, process.started));
        phases.locale = own.locale;
        for (number, exec) in process.execs.iter().enumerate() {
            let called = own.execs.iter().rev().find(|called| **called <= exec.at);
            let called = called.copied().unwrap_or(exec.at);
            if number == 0 {
                phases.setup = since(last_end(children, called).max(process.started), called);
            }
            phases.exec += since(called, exec.at);
            let loaded = own.loaded.iter().find(|(execs, _)| *execs == number + 1);
            if let (Some((_, loaded)), true) = (loaded, exec.loader.is_some()) {
                phases.loader += since(exec.at, (*loaded).min(ended));
            }
        }
        let cpu = process.end.and_then(|end| cpu(&end.usage));
        if let Some(cpu) = cpu {
            phases.setup = phases.setup.min(cpu + STOPS);
        }
        let lived = since(process.started, ended);
        let told = phases.setup + phases.exec + phases.loader + phases.locale;
        let told = told + lived_by(children, process.started, ended);
        phases.work = Nanos(lived.0.saturating_sub(told.0));
        phases.waiting = cpu.map_or(Nanos(0), |cpu| Nanos(phases.work.0.saturating_sub(cpu.0)));
        phases
    }

    /// When the call began that made this process.
    pub fn fork(&self, process: &Process) -> Option<Nanos> {
        let calls = self.forks.get(&(process.parent?, process.pid))?;
        calls.iter().copied().filter(|began| *began <= process.started).max()
    }
}

/// When the last of a process's children ended that ended before a moment.
fn last_end(children: &[&Process], before: Nanos) -> Nanos {
    let ends = children.iter().filter_map(|child| Some(child.end?.at));
    ends.filter(|end| *end <= before).max().unwrap_or(Nanos(0))
}

/// For how long of a time any of the children lived.
fn lived_by(children: &[&Process], from: Nanos, to: Nanos) -> Nanos {
    let lives = children.iter().filter_map(|child| Some((child.started, child.end?.at.min(to))));
    let mut lives: Vec<_> = lives.collect();
    lives.sort_unstable();
    let (mut lived, mut until) = (Nanos(0), from);
    for (started, ended) in lives {
        lived += since(started.max(until), ended);
        until = until.max(ended);
    }
    lived
}

/// The processor time of a process, without its children's; none where it is not told, since no
/// process takes none.
fn cpu(usage: &Usage) -> Option<Nanos> {
    let micros = usage.user.0.saturating_add(usage.system.0);
    (micros > 0).then(|| Nanos(micros.saturating_mul(1000)))
}

/// From one moment to a later one.
pub(super) fn since(from: Nanos, to: Nanos) -> Nanos {
    Nanos(to.0.saturating_sub(from.0))
}
