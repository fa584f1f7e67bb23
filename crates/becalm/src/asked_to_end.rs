//! becalm is asked to end (Ctrl-C, `kill`, a terminal that closes) while it changes files, or waits for commands.

use std::fmt;
use std::path::{Path, PathBuf};

use launch::{EndRequests, Ended, NotedEnd, StageError};
use prove::ProofError;
use rustix::process::Signal;

use crate::exit::Failure;

/// Work on files that is left with every file as it was, or done and said to its end, where becalm is asked to end.
/// Begin it before anything is changed; [`FileChanges::end`] it once the answer is out.
pub struct FileChanges(NotedEnd);

impl FileChanges {
    /// From now on.
    pub fn begin() -> FileChanges {
        FileChanges(NotedEnd::begin())
    }

    /// Whether to leave the work, as long as it can be left.
    pub fn is_asked_to_end(&self) -> bool {
        self.0.signal().is_some()
    }

    /// Why it was not done.
    pub fn failure(&self, error: remedy::Error) -> Failure {
        match (&error, self.0.signal()) {
            (remedy::Error::AskedToEnd, Some(signal)) => asked_to_end(signal, error.to_string()),
            _ => error.into(),
        }
    }

    /// All is done and said, as far as anybody listens: ends as was asked meanwhile, if it was.
    ///
    /// # Errors
    /// The failure for that.
    pub fn end(self, said: &str) -> Result<(), Failure> {
        self.0.signal().map_or(Ok(()), |signal| Err(asked_to_end(signal, said.to_owned())))
    }
}

/// How files are changed by a state directory: another becalm that is at work there is waited for.
pub fn journal_options(state: PathBuf) -> remedy::Options<'static> {
    remedy::Options { waits: Some(&waits_for_another), ..remedy::Options::new(state) }
}

/// Says that another becalm is waited for, which works with the same state directory.
fn waits_for_another(state: &Path) {
    let state = term::quoted_path(state);
    term::warn(&format!("another becalm is at work ({state}): waiting until it has ended"));
}

/// Fails where a signal has come meanwhile.
pub fn not_asked_to_end(end: &EndRequests) -> Result<(), Failure> {
    end.signal().map_or(Ok(()), |signal| Err(asked_to_end(signal, "interrupted".to_owned())))
}

/// The signal that has ended a command, where it is one with which somebody asks what runs in a terminal, or a job, to
/// end: becalm is meant as well, and its work on what the command has shown is not begun.
pub fn asked_by_end(ended: Ended) -> Option<i32> {
    const ASKING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
    match ended {
        Ended::Signaled(signal) => ASKING.iter().any(|it| it.as_raw() == signal).then_some(signal),
        Ended::Exited(_) => None,
    }
}

/// What ends a verb that was asked to end by a signal: becalm dies of it in the end, so that a shell's loop ends, too.
pub fn asked_to_end(signal: i32, said: String) -> Failure {
    Failure { status: 128u8.wrapping_add(signal as u8), error: AskedToEnd { signal, said }.into() }
}

/// What ended a process that becalm does its own work in, or did not let it be.
pub fn of_stage(error: StageError) -> Failure {
    match error {
        StageError::Interrupted(signal) => asked_to_end(signal, error.to_string()),
        error => anyhow::Error::new(error).into(),
    }
}

/// What keeps a proof from being made, among it being asked to end.
pub fn of_proof(error: ProofError) -> Failure {
    match error {
        ProofError::Stage { error: StageError::Interrupted(signal), .. } => {
            asked_to_end(signal, error.to_string())
        }
        error => Failure { status: error.exit_status(), error: error.into() },
    }
}

/// The error of [`asked_to_end`].
#[derive(Debug)]
struct AskedToEnd {
    signal: i32,
    said: String,
}

impl fmt::Display for AskedToEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl std::error::Error for AskedToEnd {}

/// Whether a failure is that becalm was asked to end.
pub fn is_asked_to_end(failure: &Failure) -> bool {
    failure.error.is::<AskedToEnd>()
}

/// Dies of the signal that a failure is about, if it is about one, once it is told.
pub fn die_of(failure: &Failure) {
    if let Some(asked) = failure.error.downcast_ref::<AskedToEnd>() {
        Ended::Signaled(asked.signal).pass_on();
    }
}
