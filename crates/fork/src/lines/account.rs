//! A recording's processes, line by line.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recording::{Bytes, Frame, Micros, Nanos, PathId, Process, ProcessId, Recording};
use serde::Serialize;

use super::advice::{self, Advice};
use super::phases::{Moments, Phases, since};
use super::shim::{self, Shim};

/// A script is read up to here to show its lines.
const MOST_TEXT: u64 = 8 << 20;

/// Which line started what.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lines {
    /// Processes that were started, the command itself not counted.
    pub processes: u64,
    /// Of those, how many no line is known of.
    pub unknown: u64,
    /// What they went to, with the phases of those no line is known of.
    #[serde(flatten)]
    pub phases: Phases,
    /// The lines, what starting cost them first.
    pub lines: Vec<Line>,
    /// Programs that started processes and tell no lines, by name, with how many.
    pub silent: Vec<Program>,
    /// Programs that only start another.
    pub shims: Vec<Shim>,
}

/// A line of a script, and what it started.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Line {
    /// The file, as text to show; none for text that came from none.
    pub file: Option<String>,
    /// The same as bytes.
    #[serde(skip)]
    pub raw_file: Option<Vec<u8>>,
    /// The line in it, from 1.
    pub line: u32,
    /// The functions that it is in, as they were called.
    pub functions: Vec<String>,
    /// Who runs the script: `bash`, `python3.11`.
    pub runs: String,
    /// What the line says, where it can be read.
    pub text: Option<String>,
    /// Where it was called from most often, the innermost first: `file:line`.
    pub called_from: Vec<String>,
    /// Processes that it started, with those that tell no line of their own and were started by
    /// these.
    pub processes: u64,
    /// What they ran; a process without a program is a subshell.
    pub programs: Vec<Program>,
    /// CPU in programs.
    #[serde(rename = "user_us")]
    pub user: Micros,
    /// CPU in the kernel.
    #[serde(rename = "system_us")]
    pub system: Micros,
    /// From the fork to the end, of those that no other of the same line waits for.
    #[serde(rename = "time_ns")]
    pub time: Nanos,
    /// What that went to.
    #[serde(flatten)]
    pub phases: Phases,
    /// The largest resident set of the parent at a fork.
    #[serde(rename = "parent_rss_bytes")]
    pub parent_rss: Bytes,
    /// Programs that were tried and not there.
    pub misses: u64,
    /// What to write instead.
    pub advice: Vec<Advice>,
}

/// How often a program was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Its name; none for a subshell.
    pub name: Option<String>,
    /// How often.
    pub starts: u64,
}

/// What makes two places the same line.
type Key = (Option<PathId>, u32, Option<ProcessId>);

/// A line in the making.
#[derive(Default)]
struct Gathered {
    line: Line,
    programs: BTreeMap<Option<String>, u64>,
    callers: BTreeMap<Vec<String>, u64>,
    own: u64,
}

impl Lines {
    /// What the processes of a recording say; one that was made without a
    /// [`Look`](super::Look) names no line.
    pub fn of(recording: &Recording) -> Lines {
        let moments = Moments::of(recording);
        let children = children(recording);
        let mut lines = Lines { shims: shim::shims(recording, &moments), ..Lines::default() };
        let mut gathered: HashMap<Key, Gathered> = HashMap::new();
        let mut silent: BTreeMap<Option<String>, u64> = BTreeMap::new();
        for process in recording.processes.iter().filter(|process| process.parent.is_some()) {
            lines.processes += 1;
            let phases = moments.phases(process, &children[process.id.0 as usize]);
            lines.phases += phases;
            match key(recording, process) {
                Some(key) => {
                    let into = gathered.entry(key).or_default();
                    into.take(recording, process, phases, moments.missing(process), key);
                }
                None => {
                    lines.unknown += 1;
                    let parent = process.parent.and_then(|parent| {
                        Some(base_name(
                            recording,
                            recording.program(parent, process.started)?.image,
                        ))
                    });
                    *silent.entry(parent).or_default() += 1;
                }
            }
        }
        lines.silent = programs(silent);
        let mut texts = Texts::default();
        lines.lines = gathered.into_values().map(|line| line.finish(&mut texts)).collect();
        lines.lines.sort_by(|a, b| {
            let rank = |line: &Line| (line.phases.start(), line.processes);
            rank(b).cmp(&rank(a)).then_with(|| (&a.raw_file, a.line).cmp(&(&b.raw_file, b.line)))
        });
        lines
    }
}

impl Gathered {
    fn take(
        &mut self,
        recording: &Recording,
        process: &Process,
        phases: Phases,
        misses: u64,
        key: Key,
    ) {
        let line = &mut self.line;
        line.processes += 1;
        line.phases += phases;
        line.misses += misses;
        if let Some(end) = process.end {
            line.user.0 = line.user.0.saturating_add(end.usage.user.0);
            line.system.0 = line.system.0.saturating_add(end.usage.system.0);
        }
        let program = process.execs.first().map(|exec| base_name(recording, exec.path));
        *self.programs.entry(program).or_default() += 1;
        if !is_waited_for(recording, process, key) {
            let ended = process.end.map_or(process.started, |end| end.at);
            line.time += since(process.started, ended) + phases.fork;
        }
        if let Some(origin) = &process.origin
            && let Some((frame, callers)) = origin.frames.split_first()
        {
            self.own += 1;
            self.place(recording, process, frame);
            self.line.parent_rss = self.line.parent_rss.max(origin.rss);
            let callers = callers.iter().map(|frame| recording.shown_line(frame)).collect();
            *self.callers.entry(callers).or_default() += 1;
        }
    }

    fn place(&mut self, recording: &Recording, process: &Process, frame: &Frame) {
        let line = &mut self.line;
        line.line = frame.line;
        if self.own == 1 {
            line.file = frame.file.map(|file| recording.shown(file));
            line.raw_file = frame.file.map(|file| recording.path(file).to_vec());
            let parent = process.parent.and_then(|id| recording.program(id, process.started));
            line.runs = parent.map(|exec| base_name(recording, exec.image)).unwrap_or_default();
        }
        if !frame.function.is_empty() && !line.functions.contains(&frame.function) {
            line.functions.push(frame.function.clone());
        }
    }

    fn finish(self, texts: &mut Texts) -> Line {
        let Gathered { mut line, programs: by_name, callers, .. } = self;
        line.programs = programs(by_name);
        let most = callers.into_iter().max_by_key(|(_, times)| *times);
        line.called_from = most.map(|(callers, _)| callers).unwrap_or_default();
        line.text = line.raw_file.as_deref().and_then(|file| texts.line(file, line.line));
        line.advice = advice::advice(&line);
        line
    }
}

/// The line of a process: its own, or that of the nearest process above it that has one. Where
/// that is of no file, lines of two processes are not the same.
fn key(recording: &Recording, process: &Process) -> Option<Key> {
    let mut process = process;
    loop {
        if let Some(frame) = process.origin.as_ref().and_then(|origin| origin.frames.first()) {
            let of = if frame.file.is_none() { shell_of(recording, process) } else { None };
            return Some((frame.file, frame.line, of));
        }
        process = recording.processes.get(process.parent?.0 as usize)?;
    }
}

/// The process that runs the text a process was started from: the nearest above it that has
/// executed anything.
fn shell_of(recording: &Recording, process: &Process) -> Option<ProcessId> {
    let mut process = recording.process(process.parent?);
    while process.execs.is_empty() {
        process = recording.process(process.parent?);
    }
    Some(process.id)
}

/// Whether a process above this one was started by the same line.
fn is_waited_for(recording: &Recording, process: &Process, own: Key) -> bool {
    let mut above = process.parent;
    while let Some(parent) = above {
        let parent = recording.process(parent);
        if key(recording, parent) == Some(own) {
            return true;
        }
        above = parent.parent;
    }
    false
}

/// Each process's children.
fn children(recording: &Recording) -> Vec<Vec<&Process>> {
    let mut children = vec![Vec::new(); recording.processes.len()];
    for process in &recording.processes {
        if let Some(parent) = process.parent {
            children[parent.0 as usize].push(process);
        }
    }
    children
}

fn programs(counts: BTreeMap<Option<String>, u64>) -> Vec<Program> {
    let program = |(name, starts)| Program { name, starts };
    let mut programs: Vec<_> = counts.into_iter().map(program).collect();
    programs.sort_by_key(|program| std::cmp::Reverse(program.starts));
    programs
}

/// A file's name without its folder.
pub(super) fn base_name(recording: &Recording, path: PathId) -> String {
    let path = recording.path(path);
    recording::shown(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
}

/// Scripts, as they are now.
#[derive(Default)]
struct Texts {
    read: HashMap<Vec<u8>, Vec<u8>>,
}

impl Texts {
    fn line(&mut self, file: &[u8], line: u32) -> Option<String> {
        let text = self.read.entry(file.to_vec()).or_insert_with(|| read(file));
        let number = usize::try_from(line).ok()?.checked_sub(1)?;
        let line = text.split(|byte| *byte == b'\n').nth(number)?;
        Some(String::from_utf8_lossy(line).trim().to_owned())
    }
}

fn read(file: &[u8]) -> Vec<u8> {
    let path = Path::new(std::ffi::OsStr::from_bytes(file));
    let mut text = Vec::new();
    // A pipe would wait for a writer.
    if path.is_file()
        && let Ok(file) = File::open(path)
    {
        let _ = file.take(MOST_TEXT).read_to_end(&mut text);
    }
    text
}
