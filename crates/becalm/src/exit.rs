//! Exit statuses, as docs/exit-status.md says.
//!
//! A verb with a command passes the command's status through, and fails with 125, 126 (cannot
//! execute) or 127 (not found), as env(1) does. A verb without one answers 0 (done), 1 (the
//! answer is no, or it failed) or 2 (usage).

use std::io::ErrorKind;
use std::process::ExitCode;

use crate::asked_to_end::die_of;

/// becalm itself failed, and a command's status would have been passed through.
pub const FAILED: u8 = 125;
/// Wrong usage.
pub const USAGE: u8 = 2;
/// The answer is no, or a verb without a command failed.
pub const NO: u8 = 1;

/// The start of a command that itself succeeded is over its budget, or nobody knows.
pub const OVER_BUDGET: u8 = 3;

/// What ends a verb: a status, or an error and the status that goes with it.
pub struct Failure {
    /// The status.
    pub status: u8,
    /// What to say, in one line.
    pub error: anyhow::Error,
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    /// Most failures are of verbs without a command.
    fn from(error: E) -> Failure {
        Failure { status: NO, error: error.into() }
    }
}

impl Failure {
    /// A failure of a verb that runs a command.
    pub fn of_command(error: impl Into<anyhow::Error>) -> Failure {
        Failure { status: FAILED, error: error.into() }
    }

    /// A failure to be called as it should have been.
    pub fn of_usage(error: impl Into<anyhow::Error>) -> Failure {
        Failure { status: USAGE, error: error.into() }
    }

    /// Whether a reader has seen enough (`| head`).
    pub fn is_broken_pipe(&self) -> bool {
        self.error.chain().any(|cause| {
            let error = cause.downcast_ref::<std::io::Error>();
            error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
        })
    }
}

/// The process's exit code, after saying what went wrong in one line.
pub fn of(done: Result<u8, Failure>) -> ExitCode {
    match done {
        Ok(status) => ExitCode::from(status),
        // That is no failure; the shell's convention for it is death by SIGPIPE.
        Err(failure) if failure.is_broken_pipe() => ExitCode::from(141),
        Err(failure) => {
            for other in others(&failure.error) {
                term::warn(&other.to_string());
            }
            // Names in it are the user's; none may end the line or steer the terminal.
            term::warn(&format!("{:#}", failure.error));
            die_of(&failure);
            ExitCode::from(failure.status)
        }
    }
}

/// Of many files that an error is about, all but the one that it names.
fn others(error: &anyhow::Error) -> &[remedy::Changed] {
    match error.chain().find_map(|cause| cause.downcast_ref()) {
        Some(remedy::Error::Changed { changed: all })
        | Some(remedy::Error::PartlyTakenBack { stays: all, .. }) => {
            all.get(1..).unwrap_or_default()
        }
        _ => &[],
    }
}

/// Prints clap's message: help to standard output with status 0, an error with status 2.
pub fn usage(error: &clap::Error) -> ExitCode {
    let status = if error.use_stderr() { USAGE } else { 0 };
    let _ = error.print();
    ExitCode::from(status)
}
