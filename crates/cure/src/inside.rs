//! Which processes `becalm run --builtins` takes away.
//!
//! A shell does a program's work itself only for options that the library knows, and only where that
//! succeeds in silence; all else is run as before, and the look at the programs that comes
//! first is then paid for nothing. So a process counts where its own words, its variables and its end say that it
//! is of the first kind. Of some, that hangs on files too, or on where their input comes from, which the recording does
//! not tell: these count as what may be done, and are told apart.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recording::{Attributor, Cause, Exec, ExitStatus, Kind, Process, ProcessId, Recording};
use script::builtins::{
    InsideByWords, has_builtins, inside_by_words, is_for_programs, is_of_another_locale,
};
use script::lines::ScriptLines;

use crate::binding::base_name;
use crate::machine::Machine;
use crate::prediction::CureEffect;
use crate::reach::{Reach, ShellReach};

/// The processes of a recording that shells start, and would do without.
pub(crate) struct InsideProcesses<'r> {
    /// Those that they would do without, for certain or if files are as the library takes them.
    pub processes: HashSet<ProcessId>,
    /// How many of these hang on files.
    pub uncertain: u64,
    /// How many processes they start.
    pub of_shells: u64,
    /// Of those, how many are of shells that have the library already.
    pub of_such: u64,
    /// Of the others, how many are programs that a shell does itself, but not as they are run here.
    pub otherwise: u64,
    /// Exported variables with which shells start programs as ever.
    pub variables: BTreeSet<&'r str>,
    /// The shells that would: `bash`, `dash`.
    pub shells: BTreeSet<String>,
    /// Scripts that are executed themselves, and shells that have the library by who starts them.
    files: BTreeSet<&'r [u8]>,
    /// How many times a bash begins, and reads our file.
    reading: u64,
    /// How many times a shell, or what starts shells, begins that has a library otherwise.
    reached: u64,
    /// How often a program is looked at once more.
    looks: u64,
}

impl<'r> InsideProcesses<'r> {
    pub(crate) fn of(recording: &'r Recording) -> InsideProcesses<'r> {
        let mut inside = InsideProcesses {
            processes: HashSet::new(),
            of_shells: 0,
            of_such: 0,
            uncertain: 0,
            otherwise: 0,
            variables: BTreeSet::new(),
            shells: BTreeSet::new(),
            files: BTreeSet::new(),
            reading: 0,
            reached: 0,
            looks: 0,
        };
        let reach = Reach::of(recording);
        let lines = StartingLines::of(recording);
        for process in &recording.processes {
            for exec in &process.execs {
                match reach.shell(exec) {
                    Some(ShellReach::ReadsOurFile) => inside.reading += 1,
                    Some(ShellReach::ByItsStarter) => inside.reached += 1,
                    None if reach.passes_on(exec) => inside.reached += 1,
                    None => (),
                }
            }
            let Some(shell) = started_by(recording, process) else { continue };
            let Some(exec) = process.execs.first() else { continue };
            let Some(reached) = reach.shell(shell) else { continue };
            let text = lines.of_process(recording, process);
            inside.add(recording, process, (shell, reached), exec, text);
        }
        inside
    }

    fn add(
        &mut self,
        recording: &'r Recording,
        process: &Process,
        (shell, reached): (&'r Exec, ShellReach),
        exec: &'r Exec,
        text: Option<&str>,
    ) {
        self.of_shells += 1;
        if shell.env.iter().any(|(variable, value)| has_builtins(variable, value)) {
            self.of_such += 1;
            return;
        }
        let name = recording::shown(base_name(recording.path(exec.path)));
        let host = base_name(recording.path(shell.image));
        let found = inside_by_words(&name, exec.argv.get(1..).unwrap_or_default());
        let found = found.filter(|found| {
            is_succeeded(process, &name)
                && !text.is_some_and(|text| has_own_variables(text, &name))
                && (*found != InsideByWords::ByItsInput
                    || text.is_some_and(|text| brings_input(text, &name, host == b"bash")))
        });
        let for_program = |(variable, value): &&(String, String)| {
            is_for_programs(variable, value) || is_of_another_locale(&name, variable, value)
        };
        let variable = exec.env.iter().find(for_program).map(|(variable, _)| &**variable);
        match found {
            Some(found) if variable.is_none() => {
                self.processes.insert(process.id);
                self.uncertain += u64::from(found != InsideByWords::Always);
                self.looks += match exec.argv.first() {
                    _ if host == b"dash" => DASH_LOOKS,
                    Some(word) if word.contains('/') => PATH_LOOKS,
                    _ => 0,
                };
                self.shells.insert(recording::shown(host));
                if shell.path != shell.image || reached == ShellReach::ByItsStarter {
                    self.files.insert(recording.path(shell.path));
                }
            }
            _ if script::builtins::is_done_inside(&name) => {
                self.otherwise += 1;
                self.variables.extend(variable.filter(|_| found.is_some()));
            }
            _ => (),
        }
    }

    /// Whether the shells of this machine take the builtins, in each of the scripts.
    pub(crate) fn are_taken(&self, machine: &Machine) -> bool {
        let taken =
            |file: &&[u8]| (machine.takes_builtins)(Some(Path::new(OsStr::from_bytes(file))));
        (machine.takes_builtins)(None) && self.files.iter().all(taken)
    }

    /// What that takes away, and what it adds: the library looks at each program before it does its
    /// work (the exec stands for that look), each bash reads the library, and before it all
    /// `becalm run` looks whether all programs are those that it knows.
    pub(crate) fn effect(&self, recording: &Recording) -> CureEffect {
        let taken = own_calls(recording, &self.processes);
        let taken = taken.filter(|number| {
            let event = &recording.events[*number];
            event.kind() != Kind::Exec || event.outcome.failed()
        });
        let launch = LAUNCH + ONE_DIRECTORY * directories_of_path(recording);
        let started = self.of_shells.saturating_sub(self.processes.len() as u64);
        let looks = self.otherwise * ONE_LOOK + started * ONE_START;
        let shells = self.reading * ONE_READING + self.reached * ONE_REACHED;
        let added = launch + shells + looks + self.looks;
        CureEffect { added, ..CureEffect::of(taken) }
    }
}

/// What `becalm run --builtins` does before it becomes the command: it looks at its programs, at shells and at what
/// starts shells, and into each directory of PATH.
const LAUNCH: u64 = 120;
const ONE_DIRECTORY: u64 = 4;
/// What is asked of a program before it is started: whether it is a shell.
const ONE_START: u64 = 2;
/// What is asked of a program that is run all the same.
const ONE_LOOK: u64 = 2;
/// What more is asked of a program than whether it is the one that is known: by dash, whether it may be
/// executed; by bash, of one that is named by its path, that, and what it is, each time twice.
const DASH_LOOKS: u64 = 1;
const PATH_LOOKS: u64 = 4;
/// What a bash does for the library that it reads of in our file, and what a program does for one that it
/// is started with.
const ONE_READING: u64 = 14;
const ONE_REACHED: u64 = 8;

fn directories_of_path(recording: &Recording) -> u64 {
    let exec = recording.processes.first().and_then(|process| process.execs.first());
    let path = exec.and_then(|exec| exec.env.iter().find(|(name, _)| name == "PATH"));
    path.map_or(0, |(_, value)| value.split(':').count() as u64)
}

/// The calls of processes that are theirs alone, from their exec on: the exec, the loader, the
/// locale. What their own work asks for stays: whoever does it then asks for the same.
pub(crate) fn own_calls(
    recording: &Recording,
    processes: &HashSet<ProcessId>,
) -> impl Iterator<Item = usize> {
    let mut attributor = Attributor::new(recording);
    let events = recording.events.iter().enumerate();
    events.filter_map(move |(number, event)| {
        if !event.is_metadata() || !processes.contains(&event.process) {
            return None;
        }
        let is_own = match event.kind() {
            Kind::Exec => true,
            _ => !matches!(attributor.attribute(event).cause, Cause::Program | Cause::Shell),
        };
        is_own.then_some(number)
    })
}

/// Whether it ended as one that a shell does itself: in silence. Of two, that nothing was found is an answer.
fn is_succeeded(process: &Process, name: &str) -> bool {
    let Some(ExitStatus::Exited(status)) = process.end.map(|end| end.status) else { return false };
    status == 0 || (status == 1 && ["grep", "expr"].contains(&name))
}

fn started_by<'r>(recording: &'r Recording, process: &Process) -> Option<&'r Exec> {
    recording.program(process.parent?, process.started)
}

/// What lines of scripts say, by file and number.
struct StartingLines(HashMap<(Vec<u8>, u32), String>);

impl StartingLines {
    fn of(recording: &Recording) -> StartingLines {
        let lines = ScriptLines::of(recording).lines.into_iter();
        let texts = lines.filter_map(|line| Some(((line.raw_file?, line.line), line.text?)));
        StartingLines(texts.collect())
    }

    /// The line that started a process, where it is known.
    fn of_process(&self, recording: &Recording, process: &Process) -> Option<&str> {
        let told = recording.told(process.id);
        let frame = told.and_then(|told| told.origin.as_ref()?.frames.first())?;
        let at = (recording.path(frame.file?).to_vec(), frame.line);
        self.0.get(&at).map(String::as_str)
    }
}

/// Whether a line gives a program its input by a here-document, or within a substitution, where bash needs no pipe;
/// or, in dash, from a file: bash starts a program that is redirected from one.
fn brings_input(line: &str, program: &str, is_bash: bool) -> bool {
    line.match_indices(program).any(|(at, _)| {
        let (before, behind) = line.split_at(at);
        let is_substituted = before.contains("$(") || before.contains('`');
        (is_bash && is_substituted) || behind.contains(if is_bash { "<<" } else { "<" })
    })
}

/// Whether a line has variables for a program alone, as `LC_ALL=C sort`: it is started then.
fn has_own_variables(line: &str, program: &str) -> bool {
    line.match_indices(program).any(|(at, _)| {
        let before = line[..at].strip_suffix(' ').map(str::trim_end).unwrap_or_default();
        let word = before.rsplit([' ', '\t', ';', '(', '`', '&', '|']).next().unwrap_or_default();
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_where_a_programs_input_and_variables_come_from() {
        assert!(brings_input("x=$(echo a | sed s/a/b/)", "sed", true));
        assert!(!brings_input("x=$(echo a | sed s/a/b/)", "sed", false));
        assert!(!brings_input("echo a | sed s/a/b/", "sed", true));
        assert!(brings_input("wc -l < list", "wc", false));
        assert!(!brings_input("wc -l < list", "wc", true));
        assert!(brings_input("cat <<END", "cat", true));
        assert!(has_own_variables("x=$(LC_ALL=C sort list)", "sort"));
        assert!(!has_own_variables("x=$(sort list)", "sort"));
        assert!(!has_own_variables("x=1; sort list", "sort"));
    }
}
