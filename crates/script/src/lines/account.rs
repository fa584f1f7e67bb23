//! A recording's processes, line by line.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use recording::{ByteUnits, Descent, Frame, Micros, Nanos, PathId, Process, ProcessId, Recording};
use rustix::fs::OFlags;
use schemars::JsonSchema;
use serde::Serialize;

use super::advice::{self, Advice};
use super::path;
use super::phases::{PhaseMoments, Phases, since};
use super::shim::{self, Shim};

/// A script is read up to here to show its lines.
const MOST_TEXT: u64 = 8 << 20;

/// Which line started what.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ScriptLines {
    /// Processes that were started, the command itself not counted.
    pub processes: u64,
    /// Of those, how many no line is known of.
    pub unknown: u64,
    /// What they went to, with the phases of those no line is known of.
    #[serde(flatten)]
    pub phases: Phases,
    /// How much of the command's time its end waited for them: what they are on the critical path. The
    /// rest is the command's own.
    #[serde(rename = "critical_ns")]
    pub critical: Nanos,
    /// The lines, what starting cost them first.
    pub lines: Vec<ScriptLine>,
    /// Programs that started processes and tell no lines, by name, with how many.
    pub silent: Vec<StartedProgram>,
    /// Programs that execute another in their place.
    pub shims: Vec<Shim>,
}

/// A line of a script, and what it started.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ScriptLine {
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
    /// The option that the text came by, where it came from no file: `-c`, `-e`. It can come by standard
    /// input, too.
    #[serde(skip)]
    pub option: Option<&'static str>,
    /// What the line says, where it can be read.
    pub text: Option<String>,
    /// Where it was called from most often, the innermost first: `file:line`.
    pub called_from: Vec<String>,
    /// From where it was called, most often first.
    pub callers: Vec<LineCaller>,
    /// Whether it was run over and over from one place: it is in a loop, or what calls it is.
    pub in_loop: bool,
    /// Processes that it started, with those that tell no line of their own and were started by
    /// these.
    pub processes: u64,
    /// What they ran; a process without a program is a subshell.
    pub programs: Vec<StartedProgram>,
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
    /// How much of the command's time its end waited for these processes: those that ran beside a
    /// longer one take no part in it.
    #[serde(rename = "critical_ns")]
    pub critical: Nanos,
    /// By how much the command would end earlier, at least, if the line did the same without a process:
    /// what it works and waits stays, and what the command itself does to start a process is not counted.
    /// None where becalm knows no way.
    #[serde(rename = "saved_if_cured_ns")]
    pub saved: Option<Nanos>,
    /// The largest resident set of the parent at a fork.
    #[serde(rename = "parent_rss_bytes")]
    pub parent_rss: ByteUnits,
    /// Programs that were tried and not there.
    pub enoent: u64,
    /// What to write instead.
    pub advice: Vec<Advice>,
}

/// A place that a line was called from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineCaller {
    /// The lines of the call stack above it, the innermost first: `file:line`.
    pub from: Vec<String>,
    /// How many processes it started then.
    pub processes: u64,
}

/// How many processes ran a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StartedProgram {
    /// Its name; none for a subshell.
    pub name: Option<String>,
    /// How many.
    pub processes: u64,
}

/// What makes two places the same line.
type LineOrigin = (Option<PathId>, u32, Option<ProcessId>);

/// What makes two starts of a program those of one place: the shell that runs the line, from where
/// it was called, and the program.
type LineRun = (Option<ProcessId>, Vec<Frame>, Option<String>);

/// A line in the making.
#[derive(Default)]
struct Gathered {
    line: ScriptLine,
    programs: BTreeMap<Option<String>, u64>,
    callers: BTreeMap<Vec<String>, u64>,
    functions: HashSet<String>,
    repeats: HashMap<LineRun, u64>,
    own: u64,
    saved: Nanos,
}

impl ScriptLines {
    /// What the processes of a recording say; one that was made without a
    /// [`LineFinder`](super::Look) names no line.
    pub fn of(recording: &Recording) -> ScriptLines {
        let moments = PhaseMoments::of(recording);
        let children = children(recording);
        let mut lines =
            ScriptLines { shims: shim::shims(recording, &moments), ..ScriptLines::default() };
        let waited = waited_for(recording);
        let critical = path::critical(recording, &moments, &children);
        let mut gathered: HashMap<LineOrigin, Gathered> = HashMap::new();
        let mut silent: BTreeMap<Option<String>, u64> = BTreeMap::new();
        for process in recording.processes.iter().filter(|process| process.parent.is_some()) {
            lines.processes += 1;
            let phases = moments.phases(process, &children[process.id.0 as usize]);
            lines.phases += phases;
            let critical = critical[process.id.0 as usize];
            lines.critical += critical;
            match key(recording, process) {
                Some(key) => {
                    let into = gathered.entry(key).or_default();
                    into.take(recording, process, phases, moments.missing(process));
                    into.line.critical += critical;
                    into.saved += path::saved(critical, &phases);
                    if !waited[process.id.0 as usize] {
                        let ended = process.end.map_or(process.started, |end| end.at);
                        into.line.time += since(process.started, ended) + phases.fork;
                    }
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
        let mut texts = ScriptTexts::default();
        lines.lines = gathered.into_values().map(|line| line.finish(&mut texts)).collect();
        lines.lines.sort_by(|a, b| {
            let rank = |line: &ScriptLine| (line.phases.start(), line.processes);
            rank(b).cmp(&rank(a)).then_with(|| (&a.raw_file, a.line).cmp(&(&b.raw_file, b.line)))
        });
        lines
    }
}

impl Gathered {
    fn take(&mut self, recording: &Recording, process: &Process, phases: Phases, enoent: u64) {
        let line = &mut self.line;
        line.processes += 1;
        line.phases += phases;
        line.enoent += enoent;
        if let Some(end) = process.end {
            line.user.0 = line.user.0.saturating_add(end.usage.user.0);
            line.system.0 = line.system.0.saturating_add(end.usage.system.0);
        }
        let program = process.execs.first().map(|exec| base_name(recording, exec.path));
        *self.programs.entry(program.clone()).or_default() += 1;
        if let Some(told) = recording.told(process.id)
            && let Some((_, callers)) = told.origin.as_ref().and_then(|it| it.frames.split_first())
        {
            let run = (recording.started_in(told.id), callers.to_vec(), program);
            *self.repeats.entry(run).or_default() += 1;
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
            line.option = parent.and_then(|exec| text_option(&line.runs, &exec.argv));
        }
        if !frame.function.is_empty() && self.functions.insert(frame.function.clone()) {
            line.functions.push(frame.function.clone());
        }
    }

    fn finish(self, texts: &mut ScriptTexts) -> ScriptLine {
        let Gathered { mut line, programs: by_name, callers, repeats, saved, .. } = self;
        line.programs = programs(by_name);
        let called = callers.into_iter().filter(|(from, _)| !from.is_empty());
        line.callers = called.map(|(from, processes)| LineCaller { from, processes }).collect();
        line.callers.sort_by_key(|caller| std::cmp::Reverse(caller.processes));
        line.called_from =
            line.callers.first().map(|caller| caller.from.clone()).unwrap_or_default();
        line.text = line.raw_file.as_deref().and_then(|file| texts.line(file, line.line));
        line.in_loop = repeats.iter().any(|((.., program), times)| {
            *times > advice::most_at_once(line.text.as_deref(), program.as_deref())
        });
        line.advice = advice::advice(&line);
        let is_builtin = |program: &StartedProgram| {
            program.name.as_deref().is_none_or(crate::builtins::is_done_inside)
        };
        // `run --builtins` is for these.
        let has_builtins = ["bash", "sh", "dash"].contains(&line.runs.as_str());
        let is_curable =
            !line.advice.is_empty() || has_builtins && line.programs.iter().all(is_builtin);
        line.saved = is_curable.then_some(saved);
        line
    }
}

/// The option by which an interpreter was given its text, as `-c`, `-lc`, `-ne`.
fn text_option(runs: &str, argv: &[String]) -> Option<&'static str> {
    let option = if runs.starts_with("perl") { "-e" } else { "-c" };
    let letter = &option[1..];
    let mut words = argv.iter().skip(1);
    let is_option = |word: &&String| word.starts_with(['-', '+']) && *word != "--";
    while let Some(word) = words.next().filter(is_option) {
        if ["-o", "+o", "-O", "+O", "-W", "-X", "-I", "--rcfile", "--init-file"].contains(&&**word)
        {
            words.next();
        } else if !word.starts_with("--") && !word.starts_with("-M") && word.contains(letter) {
            return Some(option);
        }
    }
    None
}

/// The line of a process: its own, or that of the nearest process above it that has one. Where
/// that is of no file, lines of two processes are not the same.
fn key(recording: &Recording, process: &Process) -> Option<LineOrigin> {
    let told = recording.told(process.id)?;
    let frame = told.origin.as_ref()?.frames.first()?;
    let of = if frame.file.is_none() { recording.started_in(told.id) } else { None };
    Some((frame.file, frame.line, of))
}

/// Of each process whether one above it was started by the same line, and waits for it.
fn waited_for(recording: &Recording) -> Vec<bool> {
    let descent = Descent::of(recording);
    let mut waited = vec![false; recording.processes.len()];
    // Those above the process that the walk is at: where what is below them ends, and their line.
    let mut above: Vec<(usize, Option<LineOrigin>)> = Vec::new();
    let mut lines: HashMap<LineOrigin, u64> = HashMap::new();
    for (place, process) in descent.walk().into_iter().enumerate() {
        while let Some((_, left)) = above.pop_if(|(end, _)| *end <= place) {
            left.and_then(|key| lines.get_mut(&key)).into_iter().for_each(|times| *times -= 1);
        }
        let key = key(recording, recording.process(process));
        if let Some(key) = key {
            let times = lines.entry(key).or_default();
            waited[process.0 as usize] = *times > 0;
            *times += 1;
        }
        above.push((descent.places(process).end, key));
    }
    waited
}

/// Each process's children.
pub(super) fn children(recording: &Recording) -> Vec<Vec<&Process>> {
    let mut children = vec![Vec::new(); recording.processes.len()];
    for process in &recording.processes {
        if let Some(parent) = process.parent {
            children[parent.0 as usize].push(process);
        }
    }
    children
}

fn programs(counts: BTreeMap<Option<String>, u64>) -> Vec<StartedProgram> {
    let program = |(name, processes)| StartedProgram { name, processes };
    let mut programs: Vec<_> = counts.into_iter().map(program).collect();
    programs.sort_by_key(|program| std::cmp::Reverse(program.processes));
    programs
}

/// A file's name without its directory.
pub(super) fn base_name(recording: &Recording, path: PathId) -> String {
    let path = recording.path(path);
    recording::shown(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
}

/// Scripts, as they are now.
#[derive(Default)]
struct ScriptTexts {
    read: HashMap<Vec<u8>, Vec<u8>>,
}

impl ScriptTexts {
    fn line(&mut self, file: &[u8], line: u32) -> Option<String> {
        let text = self.read.entry(file.to_vec()).or_insert_with(|| read(file));
        let number = usize::try_from(line).ok()?.checked_sub(1)?;
        let line = text.split(|byte| *byte == b'\n').nth(number)?;
        Some(String::from_utf8_lossy(line).trim().to_owned())
    }
}

/// The beginning of a regular file. A recording may name anything, and what it names may become
/// anything: a pipe would wait for a writer, a terminal become becalm's own, a device act.
fn read(file: &[u8]) -> Vec<u8> {
    let path = Path::new(std::ffi::OsStr::from_bytes(file));
    let mut text = Vec::new();
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    if path.is_file()
        && let Ok(file) = File::options().read(true).custom_flags(flags).open(path)
        && file.metadata().is_ok_and(|opened| opened.is_file())
    {
        let _ = file.take(MOST_TEXT).read_to_end(&mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_of_an_option_only_where_one_gave_it() {
        let option = |runs: &str, line: &str| {
            text_option(runs, &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        };
        for given in ["bash -c x", "bash -o posix -ec x", "zsh -fc x", "python3 -X utf8 -Bc x"] {
            assert_eq!(option(given.split(' ').next().unwrap(), given), Some("-c"), "{given}");
        }
        assert_eq!(option("perl", "perl -Mstrict -I dir -lne x"), Some("-e"));
        for other in ["bash", "bash -s -- -c x", "bash --norc", "zsh file -c", "bash -O extglob"] {
            assert_eq!(option("bash", other), None, "{other}");
        }
        assert_eq!(option("perl", "perl -Mre -"), None);
    }

    #[test]
    fn of_what_a_recording_names_only_regular_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("script"), "one\ntwo\n").unwrap();
        let fifo = at("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
        let mut texts = ScriptTexts::default();
        let mut second = |path: &Path| texts.line(path.as_os_str().as_bytes(), 2);
        assert_eq!(second(&at("script")).as_deref(), Some("two"));
        // Whoever opened it to read it would wait for ever.
        assert_eq!(second(&fifo), None);
        assert_eq!(second(Path::new("/dev/zero")), None);
    }
}
