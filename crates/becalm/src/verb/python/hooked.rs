//! A command, recorded with the hook that makes Python say what it imports.

use std::ffi::{OsStr, OsString};

use python::Hook;
use recording::Recording;
use watch::Finished;

use crate::exit::Failure;
use crate::recorded;

const VARIABLE: &str = "PYTHONPATH";

/// Runs and records a command; with the hook, unless it may not be brought to it.
pub(super) fn record(
    command: &[OsString],
    wants_hook: bool,
) -> Result<(Recording, Option<Hook>, Finished), Failure> {
    let wanted = recorded::Wanted::of(command);
    if !wants_hook || !python::may_hook(command) {
        let (recording, finished) = recorded::and_read(&wanted, None)?;
        return Ok((recording, None, finished));
    }
    let given = std::env::var_os(VARIABLE);
    let hook = Hook::new(given.as_deref()).map_err(Failure::of_command)?;
    set_environment(VARIABLE, Some(&hook.python_path()));
    let ran = recorded::and_read(&wanted, None);
    set_environment(VARIABLE, given.as_deref());
    let (recording, finished) = ran?;
    Ok((recording, Some(hook), finished))
}

/// Changes the environment that the command inherits.
fn set_environment(name: &str, value: Option<&OsStr>) {
    // SAFETY: this process has one thread, so nobody else reads its environment.
    unsafe {
        match value {
            Some(value) => std::env::set_var(name, value),
            None => std::env::remove_var(name),
        }
    }
}
