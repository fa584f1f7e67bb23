//! What a recording tells of loaders: every lookup that each of them made, at the start and later.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use recording::{Event, Exec, Kind, Outcome, Phase, Recording};

use crate::simulation::ProbeCall;
use crate::{Disk, Dlopen, Errno, LoaderSetting, RecordedProbe, inferred_calls};

/// The lookups of one program's loader.
#[derive(Debug)]
pub struct RecordedSearch<'a> {
    /// The program.
    pub exec: &'a Exec,
    /// Before the program's first instruction.
    pub start: Vec<RecordedProbe>,
    /// After it, by calls of dlopen.
    pub later: Vec<RecordedProbe>,
}

/// The lookups of all programs' loaders, in the order in which the programs started. What a process
/// opens that forked, and runs its parent's program still, is in none of them.
pub fn recorded_searches(recording: &Recording) -> Vec<RecordedSearch<'_>> {
    let processes = recording.processes.iter();
    let mut searches: BTreeMap<(u32, usize), RecordedSearch<'_>> = processes
        .flat_map(|process| process.execs.iter().enumerate().map(|it| (process.id.0, it)))
        .map(|(process, (at, exec))| {
            ((process, at), RecordedSearch { exec, start: Vec::new(), later: Vec::new() })
        })
        .collect();
    for event in recording.events.iter().filter(|event| event.in_loader) {
        let execs = &recording.process(event.process).execs;
        let exec = execs.iter().rposition(|exec| exec.at <= event.start);
        let search = exec.and_then(|at| searches.get_mut(&(event.process.0, at)));
        let (Some(search), Some(probe)) = (search, probe(recording, event)) else { continue };
        match event.phase {
            Phase::Loading => search.start.push(probe),
            Phase::Running => search.later.push(probe),
        }
    }
    searches.into_values().collect()
}

fn probe(recording: &Recording, event: &Event) -> Option<RecordedProbe> {
    let call = match event.kind() {
        Kind::Open => ProbeCall::Open,
        Kind::Stat => ProbeCall::Stat,
        Kind::Access => ProbeCall::Access,
        Kind::Readlink => ProbeCall::Readlink,
        _ => return None,
    };
    let error = match event.outcome {
        Outcome::Failed(number) => Some(Errno(number.into())),
        Outcome::Returned(_) => None,
    };
    Some(RecordedProbe { call, path: path(recording.path(event.path?)), error })
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

impl RecordedSearch<'_> {
    /// The calls of dlopen that explain all of it, with these variables in the environment.
    ///
    /// # Errors
    /// Why they are not known, in words.
    pub fn calls(
        &self,
        recording: &Recording,
        disk: &Disk,
        program: &Path,
        variables: &BTreeMap<OsString, OsString>,
    ) -> Result<Vec<Dlopen>, String> {
        if self.later.is_empty() {
            return Ok(Vec::new());
        }
        let setting =
            LoaderSetting::for_program(disk, program).map_err(|error| error.to_string())?;
        let mut setting = setting.with_environment(|name| variables.get(name).cloned());
        setting.working_directory = path(recording.path(self.exec.cwd));
        let calls = inferred_calls(disk, program, &setting, (&self.start, &self.later))
            .map_err(|error| error.to_string())?;
        let is_relative = |call: &Dlopen| {
            call.name.as_bytes().contains(&b'/') && Path::new(&call.name).is_relative()
        };
        let is_here = std::env::current_dir().is_ok_and(|it| it == setting.working_directory);
        match calls.iter().find(|call| is_relative(call)).filter(|_| !is_here) {
            Some(call) => Err(format!(
                "{} was opened in another working directory: {}",
                call.name.to_string_lossy(),
                setting.working_directory.display()
            )),
            None => Ok(calls),
        }
    }
}
