//! Becoming a command, in place.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use crate::inherited;
use crate::lookup::{CannotStart, Command, explain, is_elf_file};
use crate::spawn::{c_string, pointers};

/// The calling process becomes the command, with everything that it inherited and these variables
/// besides: the same process id, so that signals, job control and exit status need no passing on.
/// Returns only if it cannot.
///
/// The process must have one thread.
pub fn replace(command: &Command, variables: &[(OsString, OsString)]) -> CannotStart {
    set_variables(variables);
    match execute(command) {
        Ok(never) => match never {},
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

fn execute(command: &Command) -> Result<std::convert::Infallible, CannotStart> {
    let path = command.file()?;
    let program = c_string(path.as_os_str().as_bytes())?;
    let arguments = command.argv.iter().map(|argument| c_string(argument.as_bytes()));
    let arguments = arguments.collect::<io::Result<Vec<_>>>()?;
    let argv = pointers(arguments.iter());
    // As in `spawn`: what the kernel does not know is a script of the shell's (execvp(3)).
    let by_shell = !is_elf_file(OsStr::new(&path));
    let shell = c_string(b"/bin/sh")?;
    let shell_argv = pointers([&shell, &program].into_iter().chain(arguments.iter().skip(1)));
    inherited::restore();
    // SAFETY: `argv` and `shell_argv` end with a null pointer and point to strings that live on.
    unsafe { libc::execv(program.as_ptr(), argv.as_ptr()) };
    let mut error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOEXEC) && by_shell {
        // SAFETY: as above.
        unsafe { libc::execv(shell.as_ptr(), shell_argv.as_ptr()) };
        error = io::Error::last_os_error();
    }
    Err(explain(path, error))
}
