//! Which processes `becalm run --builtins` takes away for certain.
//!
//! bash does a program's work itself only for options that the library knows, and only where that
//! succeeds in silence; all else is run as before, and the look at the programs that comes
//! first is then paid for nothing. So a process counts where its own words and its end say that it
//! is of the first kind. `cat` never does: what it reads from may be a pipe.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recording::{Attributor, Cause, Exec, ExitStatus, Kind, Process, ProcessId, Recording};

use crate::binding::base_name;
use crate::machine::Machine;
use crate::prediction::CureEffect;
use crate::reach::{Reach, ShellReach};

/// The processes of a recording that shells start, and would do without.
pub(crate) struct InsideProcesses<'r> {
    /// Those that they would do without.
    pub processes: HashSet<ProcessId>,
    /// How many processes they start.
    pub of_shells: u64,
    /// Of those, how many are programs that a shell may do itself, or may not: as it comes.
    pub may_read: u64,
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
            may_read: 0,
            shells: BTreeSet::new(),
            files: BTreeSet::new(),
            reading: 0,
            reached: 0,
            looks: 0,
        };
        let reach = Reach::of(recording);
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
            inside.of_shells += 1;
            if is_succeeded(process) && is_known(recording, exec) {
                inside.processes.insert(process.id);
                let name = base_name(recording.path(shell.image));
                inside.looks += match exec.argv.first() {
                    _ if name == b"dash" => DASH_LOOKS,
                    Some(word) if word.contains('/') => PATH_LOOKS,
                    _ => 0,
                };
                inside.shells.insert(recording::shown(name));
                if shell.path != shell.image || reached == ShellReach::ByItsStarter {
                    inside.files.insert(recording.path(shell.path));
                }
            } else if script::builtins::knows(&recording::shown(base_name(
                recording.path(exec.path),
            ))) {
                inside.may_read += 1;
            }
        }
        inside
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
        let launch = LAUNCH + ONE_DIRECTORY * directories_of_path(recording).saturating_sub(1);
        let started = self.of_shells.saturating_sub(self.processes.len() as u64);
        let looks = self.may_read * ONE_LOOK + started * ONE_START;
        let shells = self.reading * ONE_READING + self.reached * ONE_REACHED;
        let added = launch + shells + looks + self.looks;
        CureEffect { added, ..CureEffect::of(taken) }
    }
}

/// What `becalm run --builtins` does before it becomes the command, besides the search for its
/// programs, for shells, and for what starts shells, in each directory of PATH but the last: there
/// is seldom anything that is not in one before it.
const LAUNCH: u64 = 79;
const ONE_DIRECTORY: u64 = 40;
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

fn is_succeeded(process: &Process) -> bool {
    process.end.is_some_and(|end| end.status == ExitStatus::Exited(0))
}

fn started_by<'r>(recording: &'r Recording, process: &Process) -> Option<&'r Exec> {
    recording.program(process.parent?, process.started)
}

/// Whether it is a program with words that the library knows.
fn is_known(recording: &Recording, exec: &Exec) -> bool {
    let Some(options) = options(base_name(recording.path(exec.path))) else { return false };
    let mut words = exec.argv.iter().skip(1).map(String::as_str);
    words.all(|word| !word.starts_with('-') || options.contains(&word))
}

/// The options with which bash does a program itself for certain; none of another program.
pub(crate) fn options(name: &[u8]) -> Option<&'static [&'static str]> {
    Some(match name {
        b"basename" | b"dirname" | b"touch" | b"rmdir" | b"mv" | b"realpath" => &[],
        b"mkdir" => &["-p"],
        b"rm" | b"readlink" => &["-f"],
        _ => return None,
    })
}
