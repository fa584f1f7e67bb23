//! Questions that tests ask of a recording.

use recording::{Event, ExitStatus, Outcome, Process, Recording};

/// All calls on paths that begin so.
pub fn calls_below<'a>(recording: &'a Recording, prefix: &[u8]) -> Vec<&'a Event> {
    let begins =
        |event: &&Event| event.path.is_some_and(|path| recording.path(path).starts_with(prefix));
    recording.events.iter().filter(begins).collect()
}

/// All calls on a path.
pub fn calls_on<'a>(recording: &'a Recording, path: &[u8]) -> Vec<&'a Event> {
    let is_it = |event: &&Event| event.path.is_some_and(|known| recording.path(known) == path);
    recording.events.iter().filter(is_it).collect()
}

/// How many marks of a trap there are: failed opens of paths that begin with
/// `/nonexistent/<name>`.
#[track_caller]
pub fn marks(recording: &Recording, name: &str) -> usize {
    let calls = calls_below(recording, format!("/nonexistent/{name}").as_bytes());
    for call in &calls {
        assert_eq!(call.outcome, Outcome::Failed(super::made::ENOENT), "{call:?}");
    }
    calls.len()
}

/// The only process that executed a file of that name.
#[track_caller]
pub fn process_of<'a>(recording: &'a Recording, name: &str) -> &'a Process {
    let end = format!("/{name}");
    let ran = |process: &&Process| {
        process.execs.iter().any(|exec| recording.path(exec.path).ends_with(end.as_bytes()))
    };
    let all: Vec<_> = recording.processes.iter().filter(ran).collect();
    assert_eq!(all.len(), 1, "processes that ran {name}");
    all[0]
}

/// How a process ended.
#[track_caller]
pub fn end_of(process: &Process) -> ExitStatus {
    process.end.unwrap_or_else(|| panic!("{process:?} did not end")).status
}
