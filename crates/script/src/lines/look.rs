//! The observer: what runs in each process, and who can tell its line.

use std::collections::HashMap;

use watch::{Executed, Observer, ScriptFrame, Stopped};

use super::bash::Bash;
use super::make::Make;
use super::perl::Perl;
use super::python::PythonLines;
use super::symbols::{KnownSymbols, ShellSymbols};
use super::zsh::Zsh;

/// Looks into scripts at their forks, for [`watch::record_observed`] and
/// [`watch::record_starts`].
#[derive(Debug, Default)]
pub struct LineFinder {
    known: KnownSymbols,
    /// The processes that run something that can be asked.
    runs: HashMap<i32, ScriptRuntime>,
    /// Jobs of a make that has not noted them yet.
    jobs: HashMap<i32, MakeJob>,
    /// Copies of a bash that have not executed anything yet, and where they were made.
    copies: HashMap<i32, Vec<ScriptFrame>>,
    /// What Python has told.
    told: PythonLines,
}

/// What a process runs, where it can be asked for its line.
#[derive(Clone, Debug)]
enum ScriptRuntime {
    Bash(Bash),
    Make(Make),
    Zsh(Zsh),
    Perl(Perl),
}

/// A job of make's.
#[derive(Clone, Copy, Debug)]
struct MakeJob {
    make: i32,
    /// Whether make was looked into at the job's end, and had not noted it.
    was_early: bool,
}

impl Observer for LineFinder {
    fn executed(&mut self, process: &Stopped, program: &Executed<'_>) {
        self.runs.remove(&process.pid);
        self.copies.remove(&process.pid);
        self.told.forget(process.pid);
        if !program.wide {
            return;
        }
        let (bias, cwd) = (program.bias, program.cwd);
        let runs = match self.known.of(process.pid) {
            Some(ShellSymbols::Bash(addresses)) => {
                ScriptRuntime::Bash(Bash::new(addresses, bias, cwd))
            }
            Some(ShellSymbols::Make(addresses)) => {
                ScriptRuntime::Make(Make::new(&addresses, bias, cwd))
            }
            Some(ShellSymbols::Zsh(addresses)) => {
                ScriptRuntime::Zsh(Zsh::new(addresses, bias, cwd))
            }
            Some(ShellSymbols::Perl(address)) => ScriptRuntime::Perl(Perl::new(address, bias, cwd)),
            None => return,
        };
        self.runs.insert(process.pid, runs);
    }

    fn forked(&mut self, parent: &Stopped, child: i32) -> Vec<ScriptFrame> {
        let Some(runs) = self.runs.get_mut(&parent.pid) else {
            return self.told.take(parent).unwrap_or_default();
        };
        let places = match runs {
            ScriptRuntime::Bash(bash) => bash.places(parent),
            ScriptRuntime::Make(make) => make.reading(parent).into_iter().collect(),
            ScriptRuntime::Zsh(zsh) => zsh.places(parent),
            ScriptRuntime::Perl(perl) => perl.places(parent),
        };
        // Even where make is reading: while it waits for a `$(shell …)` it starts the next lines of
        // other recipes.
        if matches!(runs, ScriptRuntime::Make(_)) {
            self.jobs.insert(child, MakeJob { make: parent.pid, was_early: false });
        }
        if matches!(runs, ScriptRuntime::Bash(_)) {
            self.copies.insert(child, places.clone());
        }
        let runs = match runs {
            ScriptRuntime::Perl(perl) => ScriptRuntime::Perl(perl.forked_by(parent)),
            other => other.clone(),
        };
        self.runs.insert(child, runs);
        places
    }

    /// `$(f)` is made on the line that has it, and its copy of bash may execute the last command
    /// of the function on the line of that one.
    fn executes(&mut self, process: &Stopped) -> Vec<ScriptFrame> {
        let Some(made) = self.copies.remove(&process.pid) else { return Vec::new() };
        let Some(ScriptRuntime::Bash(bash)) = self.runs.get_mut(&process.pid) else {
            return Vec::new();
        };
        let now = bash.places(process);
        let is_told = now.first().is_some_and(|place| place.file.is_some());
        if is_told && stack(&now).ne(stack(&made)) { now } else { Vec::new() }
    }

    fn told(&mut self, process: &Stopped, text: &[u8]) {
        self.told.tell(process, text);
    }

    fn waits_for(&self, pid: i32) -> bool {
        self.jobs.contains_key(&pid)
    }

    fn ended(&mut self, pid: i32) -> Vec<ScriptFrame> {
        self.runs.remove(&pid);
        self.copies.remove(&pid);
        self.told.forget(pid);
        let Some(job) = self.jobs.remove(&pid) else { return Vec::new() };
        let Some(ScriptRuntime::Make(make)) = self.runs.get(&job.make) else { return Vec::new() };
        let found = make.job_soon(&Stopped { pid: job.make, tid: job.make }, pid);
        if found.is_none() && !job.was_early {
            // make stands before its recorder, at the call that started the job. It will have gone
            // on when this one is quite gone.
            self.jobs.insert(pid, MakeJob { was_early: true, ..job });
        }
        found.into_iter().collect()
    }
}

/// The functions and sourced files that a place is in: the lines may be off by one or two.
fn stack(places: &[ScriptFrame]) -> impl Iterator<Item = (&Option<Vec<u8>>, &str)> {
    places.iter().map(|place| (&place.file, place.function.as_str()))
}
