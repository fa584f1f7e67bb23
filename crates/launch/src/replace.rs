//! Becoming a command, in place.

use std::ffi::OsString;
use std::path::Path;

use crate::execution::Execution;
use crate::inherited;
use crate::lookup::{CannotStart, Command};

/// The calling process becomes the command, with everything that it inherited and these variables
/// besides: the same process id, so that signals, job control and exit status need no passing on.
/// Returns only if it cannot.
///
/// The process must have one thread.
pub fn replace(command: &Command, variables: &[(OsString, OsString)]) -> CannotStart {
    replace_as(command, None, variables)
}

/// The same; where a file is given, that one is executed in place of the command's, whose name stays
/// `argv[0]`.
///
/// The process must have one thread.
pub fn replace_as(
    command: &Command,
    file: Option<&Path>,
    variables: &[(OsString, OsString)],
) -> CannotStart {
    set_variables(variables);
    let execution = match file {
        Some(file) => Execution::of_file(command, file.to_owned()),
        None => Execution::of(command),
    };
    match execution {
        Ok(execution) => {
            inherited::restore();
            let error = execution.execute();
            execution.explain(error)
        }
        Err(why) => why,
    }
}

/// Has what this process starts from now on see these variables.
///
/// The process must have one thread.
pub fn set_variables(variables: &[(OsString, OsString)]) {
    for (name, value) in variables {
        // SAFETY: by the contract above, no other thread reads the environment.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Has what this process starts from now on not see these variables.
///
/// The process must have one thread.
pub fn unset_variables(names: &[OsString]) {
    for name in names {
        // SAFETY: by the contract above, no other thread reads the environment.
        unsafe { std::env::remove_var(name) };
    }
}
