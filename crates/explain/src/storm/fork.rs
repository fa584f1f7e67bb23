//! The same program run over and over by the same parent.
//!
//! The parent is a program, not a process: a subshell that forks is the script that forks.
//! Only processes that ended within a second count: a program that runs longer was worth its
//! exec, and 64 workers are no storm.

use std::collections::BTreeMap;

use recording::{ByteUnits, Micros, Nanos, PathId, Process, ProcessId, Recording};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DetectedStorm, Storm, StormSource};
use crate::findings::CauseCount;
use crate::source_path::SourcePath;
use crate::survey::{OpId, OpSurvey, split};
use crate::threshold::STARTS;
use crate::who;
use crate::words::{count, listed, operations, percent};

/// A process that lived longer was no tiny one.
const TINY: Nanos = Nanos(1_000_000_000);

/// The CPU of subshells that a person begins to notice: see [`crate::threshold`].
const FELT: Micros = Micros(100_000);

/// The most lines that are named.
const LINES: usize = 5;

/// Who forks, what, and where in a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ForkSource {
    /// A program, and what it forks over and over.
    Forks {
        /// The program that forks: `unpack.sh (bash)`.
        parent: String,
        /// What the processes execute; none where it is nothing: subshells.
        program: Option<String>,
        /// How many processes.
        processes: u64,
        /// Their CPU, user and system.
        cpu_us: Micros,
        /// Their metadata operations.
        metadata_ops: u64,
    },
    /// A line of a script that forks over and over.
    Line {
        /// The script; none of text that came from no file (`bash -c`).
        file: Option<SourcePath>,
        /// What runs it: `bash`.
        interpreter: String,
        /// The line, from 1.
        line: u32,
        /// What the processes execute, most often first; none stands for subshells.
        programs: Vec<Option<String>>,
        /// How many processes.
        processes: u64,
        /// Their CPU, user and system.
        cpu_us: Micros,
        /// The largest resident set of the interpreter at a fork, which the fork had to copy the
        /// page tables of.
        parent_rss_bytes: ByteUnits,
        /// Where the line is called from, if it is in a function or a sourced file: most often.
        #[serde(default)]
        called_from: Option<CallerLine>,
    },
    /// What the processes' metadata operations are for.
    Causes {
        /// The operations by cause, most first.
        causes: Vec<CauseCount>,
    },
}

/// A line that calls another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallerLine {
    /// The script; none of text that came from no file.
    pub file: Option<SourcePath>,
    /// The line, from 1.
    pub line: u32,
}

impl ForkSource {
    pub(super) fn sentence(&self, of: u64) -> String {
        match self {
            ForkSource::Forks { parent, program, processes, cpu_us, metadata_ops } => format!(
                "{parent} ran {} {} times: {:.2} s of CPU, {} a process",
                name_of(program.as_deref()),
                count(*processes),
                cpu_us.seconds(),
                operations(metadata_ops / (*processes).max(1)),
            ),
            ForkSource::Line {
                file,
                interpreter,
                line,
                programs,
                processes,
                cpu_us,
                called_from,
                ..
            } => {
                let base_name = |file: &SourcePath| recording::shown(split(file.bytes()).1);
                let of = |file: &Option<SourcePath>| {
                    file.as_ref().map_or_else(|| interpreter.clone(), base_name)
                };
                let called = called_from.as_ref();
                let called = called.map(|at| format!(", called at {}:{},", of(&at.file), at.line));
                let names = programs.iter().take(3);
                let names = names.map(|name| name_of(name.as_deref()).to_owned());
                format!(
                    "{}:{line}{} forked {} processes ({}): {:.2} s of CPU",
                    of(file),
                    called.unwrap_or_default(),
                    count(*processes),
                    listed(&names.collect::<Vec<_>>()),
                    cpu_us.seconds(),
                )
            }
            ForkSource::Causes { causes } => {
                let parts = causes.iter().take(3).map(|part| {
                    format!("{} {}", percent(part.metadata_ops, of), part.cause.name())
                });
                format!(
                    "metadata operations of these processes: {}",
                    parts.collect::<Vec<_>>().join(", ")
                )
            }
        }
    }
}

fn name_of(program: Option<&str>) -> &str {
    program.unwrap_or("a subshell")
}

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let family = Family::of(survey.recording);
    let claim: Vec<_> = survey
        .free()
        .filter(|(_, op)| family.storm_of(op.process()).is_some())
        .map(|(id, _)| id)
        .collect();
    family.storms.first()?;
    Some(DetectedStorm {
        storm: Storm::Fork,
        title: title(&family.storms),
        cause: "each process costs a fork, an execve, the loader and the locale, before the \
                program does its work"
            .to_owned(),
        observed: "every fork and exec is observed; all operations of such a process are counted \
                   here, because it would not make them if it were not run"
            .to_owned(),
        avoidable: claim.len() as u64,
        inferred: Some(0),
        time: Some(family.lived),
        sources: sources(survey, &family, &claim).into_iter().map(StormSource::Fork).collect(),
        evidence: "process",
        claim,
    })
}

/// Who runs what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ParentAndProgram {
    parent: String,
    /// None where the child executed nothing: a subshell.
    child: Option<String>,
}

impl ParentAndProgram {
    fn child(&self) -> &str {
        name_of(self.child.as_deref())
    }
}

/// All processes of a pair.
struct PairCount {
    pair: ParentAndProgram,
    count: u64,
    cpu: Micros,
}

/// Which processes belong to which storm.
struct Family {
    /// The pairs with enough processes, most first.
    storms: Vec<PairCount>,
    /// Of each process, the innermost storm that it belongs to: an index of `storms`.
    innermost: Vec<Option<usize>>,
    /// How long the outermost processes lived, summed.
    lived: Nanos,
}

impl Family {
    fn of(recording: &Recording) -> Family {
        let own: Vec<_> =
            recording.processes.iter().map(|process| start(recording, process)).collect();
        let mut counts: BTreeMap<&ParentAndProgram, (u64, Micros)> = BTreeMap::new();
        for (process, pair) in recording.processes.iter().zip(&own) {
            let Some(pair) = pair else { continue };
            let (count, cpu) = counts.entry(pair).or_default();
            *count += 1;
            cpu.0 += cpu_of(process).0;
        }
        let mut storms: Vec<_> = counts
            .into_iter()
            .filter(|(_, (count, _))| *count >= STARTS)
            .map(|(pair, (count, cpu))| PairCount { pair: pair.clone(), count, cpu })
            .collect();
        // Forks alone, without an exec, are none before they are felt themselves.
        let cpu: u64 = storms.iter().map(|starts| starts.cpu.0).sum();
        if storms.iter().all(|starts| starts.pair.child.is_none()) && cpu < FELT.0 {
            storms.clear();
        }
        storms.iter_mut().for_each(|starts| starts.cpu = Micros(0));
        storms.sort_by_key(|starts| std::cmp::Reverse(starts.count));
        let numbers: BTreeMap<ParentAndProgram, usize> =
            storms.iter().enumerate().map(|(at, starts)| (starts.pair.clone(), at)).collect();
        let mut family = Family { storms, innermost: Vec::new(), lived: Nanos(0) };
        for (process, pair) in recording.processes.iter().zip(&own) {
            family.join(process, pair.as_ref().and_then(|pair| numbers.get(pair).copied()));
        }
        family
    }

    /// Puts a process into its storm: its own, else its parent's.
    fn join(&mut self, process: &Process, own: Option<usize>) {
        let above = process.parent.and_then(|parent| self.storm_of(parent));
        let innermost = own.or(above);
        self.innermost.push(innermost);
        if above.is_none() && own.is_some() {
            self.lived += lived(process);
        }
        if let Some(storm) = innermost {
            self.storms[storm].cpu.0 += cpu_of(process).0;
        }
    }

    fn storm_of(&self, process: ProcessId) -> Option<usize> {
        self.innermost.get(process.0 as usize).copied().flatten()
    }
}

/// Who runs a process as what, if it was a tiny one.
fn start(recording: &Recording, process: &Process) -> Option<ParentAndProgram> {
    process.end?;
    if lived(process) > TINY {
        return None;
    }
    let parent = recording.program(process.parent?, process.started)?;
    Some(ParentAndProgram {
        parent: who::full_name(recording, parent),
        child: process.execs.first().map(|exec| who::name(recording, exec)),
    })
}

fn cpu_of(process: &Process) -> Micros {
    process.end.map_or(Micros(0), |end| Micros(end.usage.user.0 + end.usage.system.0))
}

fn lived(process: &Process) -> Nanos {
    let end = process.end.map_or(process.started, |end| end.at);
    Nanos(end.0.saturating_sub(process.started.0))
}

fn title(storms: &[PairCount]) -> String {
    let times = count(storms.iter().map(|storm| storm.count).sum());
    let mut names: Vec<String> = Vec::new();
    for storm in storms {
        if !names.iter().any(|name| name == storm.pair.child()) {
            names.push(storm.pair.child().to_owned());
        }
    }
    if let ([storm], [name]) = (storms, &names[..]) {
        return format!("{name} was run {times} times by {}", storm.pair.parent);
    }
    if names.len() > 3 {
        let more = names.len() - 2;
        names.truncate(2);
        names.push(format!("{more} other programs"));
    }
    format!("{} were run {times} times", listed(&names))
}

fn sources(survey: &OpSurvey, family: &Family, claim: &[OpId]) -> Vec<ForkSource> {
    let mut metadata_ops = vec![0u64; family.storms.len()];
    for id in claim {
        if let Some(storm) = family.storm_of(survey.op(*id).process()) {
            metadata_ops[storm] += 1;
        }
    }
    let most = family.storms.iter().zip(metadata_ops).take(5);
    let most = most.map(|(storm, metadata_ops)| ForkSource::Forks {
        parent: storm.pair.parent.clone(),
        program: storm.pair.child.clone(),
        processes: storm.count,
        cpu_us: storm.cpu,
        metadata_ops,
    });
    let mut sources: Vec<_> = most.collect();
    let second = sources.len().min(1);
    sources.splice(second..second, lines(survey));
    let causes = survey.causes(claim.iter().copied());
    if !causes.is_empty() {
        sources.push(ForkSource::Causes { causes });
    }
    sources
}

/// What tells one line from another: file and line, and where there is no file, the process whose
/// text it is.
type LineKey = (Option<PathId>, u32, Option<ProcessId>);

/// What one line forked.
#[derive(Default)]
struct LineForks {
    interpreter: String,
    programs: BTreeMap<Option<String>, u64>,
    processes: u64,
    cpu: Micros,
    parent_rss: ByteUnits,
    callers: BTreeMap<(Option<PathId>, u32), u64>,
}

/// The lines that fork enough to be a storm, most processes first.
fn lines(survey: &OpSurvey) -> Vec<ForkSource> {
    let recording = survey.recording;
    let mut lines: BTreeMap<LineKey, LineForks> = BTreeMap::new();
    for process in recording.processes.iter().filter(|process| process.parent.is_some()) {
        if let Some((key, told)) = line_of(recording, process) {
            lines.entry(key).or_default().take(recording, process, told);
        }
    }
    let mut lines: Vec<_> =
        lines.into_iter().filter(|(_, forks)| forks.processes >= STARTS).collect();
    lines.sort_by_key(|(key, forks)| (std::cmp::Reverse(forks.processes), *key));
    lines.truncate(LINES);
    lines.into_iter().map(|(key, forks)| forks.source(survey, key)).collect()
}

/// The line that a process comes from, and the process that told it: itself, or one above it.
fn line_of<'r>(recording: &'r Recording, process: &Process) -> Option<(LineKey, &'r Process)> {
    let told = recording.told(process.id)?;
    let frame = told.origin.as_ref()?.frames.first()?;
    let of = match frame.file {
        Some(_) => None,
        None => recording.started_in(told.id),
    };
    Some(((frame.file, frame.line, of), told))
}

impl LineForks {
    fn take(&mut self, recording: &Recording, process: &Process, told: &Process) {
        let base_name = |path| recording::shown(split(recording.path(path)).1);
        self.processes += 1;
        if let Some(end) = process.end {
            self.cpu.0 += end.usage.user.0 + end.usage.system.0;
        }
        let program = process.execs.first().map(|exec| base_name(exec.path));
        *self.programs.entry(program).or_default() += 1;
        let origin = told.origin.as_ref();
        if let Some(caller) = origin.and_then(|origin| origin.frames.get(1)) {
            *self.callers.entry((caller.file, caller.line)).or_default() += 1;
        }
        self.parent_rss = self.parent_rss.max(origin.map(|origin| origin.rss).unwrap_or_default());
        if self.interpreter.is_empty() {
            let exec = told.parent.and_then(|parent| recording.program(parent, told.started));
            self.interpreter = exec.map(|exec| base_name(exec.image)).unwrap_or_default();
        }
    }

    fn source(self, survey: &OpSurvey, (file, line, _): LineKey) -> ForkSource {
        let mut programs: Vec<_> = self.programs.into_iter().collect();
        programs.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        ForkSource::Line {
            file: file.map(|file| survey.source_path(file)),
            interpreter: self.interpreter,
            line,
            programs: programs.into_iter().map(|(name, _)| name).collect(),
            processes: self.processes,
            cpu_us: self.cpu,
            parent_rss_bytes: self.parent_rss,
            called_from: self.callers.into_iter().max_by_key(|(_, times)| *times).map(
                |((file, line), _)| CallerLine {
                    file: file.map(|file| survey.source_path(file)),
                    line,
                },
            ),
        }
    }
}
