//! Becoming a command (execvp(3)), with everything prepared before a fork.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::lookup::{CannotStart, Command, FoundProgram, explain};

/// What execve(2) takes for a command. To execute it allocates nothing.
pub(crate) struct Execution {
    /// The program's file.
    pub path: PathBuf,
    program: CString,
    argv: Arguments,
    /// As a script of the shell's, where the kernel does not know the file. Not so for an ELF
    /// file: that is one of another machine.
    by_shell: Option<(CString, Arguments)>,
}

impl Execution {
    pub fn of(command: &Command) -> Result<Execution, CannotStart> {
        Execution::of_program(command, command.program()?)
    }

    /// The same, with this file.
    pub fn of_file(command: &Command, path: PathBuf) -> Result<Execution, CannotStart> {
        Execution::of_program(command, FoundProgram::at(path))
    }

    fn of_program(command: &Command, program: FoundProgram) -> Result<Execution, CannotStart> {
        let FoundProgram { path, is_elf } = program;
        let program = c_string(path.as_os_str().as_bytes())?;
        let words = command.argv.iter().map(|argument| c_string(argument.as_bytes()));
        let words = words.collect::<io::Result<Vec<_>>>()?;
        let by_shell = match is_elf {
            true => None,
            false => {
                let shell = c_string(b"/bin/sh")?;
                let argv = [shell.clone(), program.clone()];
                let argv = argv.into_iter().chain(words.iter().skip(1).cloned()).collect();
                Some((shell, Arguments::of(argv)))
            }
        };
        Ok(Execution { path, program, argv: Arguments::of(words), by_shell })
    }

    /// Becomes the command, or says why not.
    pub fn execute(&self) -> io::Error {
        let error = self.argv.execute(&self.program);
        if let Some((shell, argv)) = &self.by_shell
            && error.raw_os_error() == Some(libc::ENOEXEC)
        {
            argv.execute(shell);
        }
        error
    }

    /// The same, with this environment (`NAME=VALUE`) in place of the inherited one.
    pub fn execute_in(&self, environment: &Arguments) -> io::Error {
        let error = self.argv.execute_in(&self.program, environment);
        if let Some((shell, argv)) = &self.by_shell
            && error.raw_os_error() == Some(libc::ENOEXEC)
        {
            argv.execute_in(shell, environment);
        }
        error
    }

    /// What an error of the exec means to a person.
    pub fn explain(self, error: io::Error) -> CannotStart {
        explain(self.path, error)
    }
}

/// Words as C has them.
pub(crate) struct Arguments {
    /// What the pointers point to.
    _words: Vec<CString>,
    /// Of each word, and a null pointer.
    pointers: Vec<*const libc::c_char>,
}

impl Arguments {
    pub fn of(words: Vec<CString>) -> Arguments {
        let pointers = words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
        Arguments { _words: words, pointers }
    }

    fn execute(&self, program: &CStr) -> io::Error {
        // SAFETY: the pointers end with a null pointer and point to strings that live on.
        unsafe { libc::execv(program.as_ptr(), self.pointers.as_ptr()) };
        io::Error::last_os_error()
    }

    fn execute_in(&self, program: &CStr, environment: &Arguments) -> io::Error {
        let (argv, environment) = (self.pointers.as_ptr(), environment.pointers.as_ptr());
        // SAFETY: both lists end with a null pointer and point to strings that live on.
        unsafe { libc::execve(program.as_ptr(), argv, environment) };
        io::Error::last_os_error()
    }
}

pub(crate) fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}
