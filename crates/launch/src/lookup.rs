//! Which file a command's name means (execvp(3)), and why it cannot be executed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// A command: a program's name and its arguments.
#[derive(Clone, Debug)]
pub struct Command {
    /// The name as given, which becomes `argv[0]`, and the arguments.
    pub argv: Vec<OsString>,
    /// Its file, where that was looked for already.
    found: Option<FoundProgram>,
}

/// What is looked at before a command is started.
#[derive(Clone, Debug)]
pub(crate) struct FoundProgram {
    pub path: PathBuf,
    pub is_elf: bool,
}

/// Why a command did not start.
#[derive(Debug, thiserror::Error)]
pub enum CannotStart {
    /// No such file, in PATH or at the path given.
    #[error("{}: command not found", .0.display())]
    NotFound(PathBuf),
    /// The file is there, the interpreter that it names is not.
    #[error("{}: the interpreter that it names, {interpreter}, is not there", .path.display())]
    NoInterpreter {
        /// The file.
        path: PathBuf,
        /// Its `#!` or PT_INTERP.
        interpreter: String,
    },
    /// A directory.
    #[error("{}: is a directory, not a command", .0.display())]
    Directory(PathBuf),
    /// No execute permission, on it or on a directory above it.
    #[error("{}: permission denied (is it executable? `chmod +x`)", .0.display())]
    Permission(PathBuf),
    /// An ELF file of another machine.
    #[error("{}: built for {machine}, which this machine cannot run", .path.display())]
    WrongMachine {
        /// The file.
        path: PathBuf,
        /// What its ELF header says.
        machine: String,
    },
    /// Another error of execve.
    #[error("{}: cannot be executed: {error}", .path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// execve's.
        error: io::Error,
    },
    /// Fork, a pipe or the like failed.
    #[error("cannot start a process: {0}")]
    System(#[from] io::Error),
    /// The same, of what stays beside a command: that has not begun.
    #[error("cannot stay beside the command: {0}")]
    Beside(io::Error),
}

impl CannotStart {
    /// The exit status that env(1) and timeout(1) give for it.
    pub fn exit_status(&self) -> u8 {
        match self {
            CannotStart::NotFound(_) | CannotStart::NoInterpreter { .. } => 127,
            CannotStart::System(_) | CannotStart::Beside(_) => 125,
            _ => 126,
        }
    }
}

impl Command {
    /// A command of these words.
    pub fn of(argv: Vec<OsString>) -> Command {
        Command { argv, found: None }
    }

    /// Looks for its file now: where it is started, nobody looks again. So what it is started in can
    /// be a place where each look counts, or takes long.
    ///
    /// # Errors
    /// As [`Command::file`].
    pub fn looked_up(mut self) -> Result<Command, CannotStart> {
        self.found = Some(self.program()?);
        Ok(self)
    }

    /// Its file, as it was found, or is found now.
    pub(crate) fn program(&self) -> Result<FoundProgram, CannotStart> {
        match &self.found {
            Some(found) => Ok(found.clone()),
            None => Ok(FoundProgram::at(self.file()?)),
        }
    }

    /// The file that the name means: as it is, if it has a slash; else the first executable of
    /// that name in PATH, as execvp(3) would find it.
    ///
    /// # Errors
    /// Not found, a directory, or not executable.
    pub fn file(&self) -> Result<PathBuf, CannotStart> {
        // confstr(_CS_PATH), which execvp uses where there is no PATH.
        self.file_in(&std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into()))
    }

    /// The same with another PATH than this process's.
    ///
    /// # Errors
    /// As [`Command::file`].
    pub fn file_in(&self, search: &OsStr) -> Result<PathBuf, CannotStart> {
        let name = self.argv.first().map(OsString::as_os_str).unwrap_or_default();
        if name.is_empty() {
            return Err(CannotStart::NotFound(PathBuf::from("''")));
        }
        if name.as_bytes().contains(&b'/') {
            let path = PathBuf::from(name);
            return match executable(&path) {
                Ok(()) => Ok(path),
                Err(why) => Err(why),
            };
        }
        let mut refused = None;
        for directory in std::env::split_paths(search) {
            let path = if directory.as_os_str().is_empty() {
                Path::new(".").join(name)
            } else {
                directory.join(name)
            };
            match executable(&path) {
                Ok(()) => return Ok(path),
                Err(why @ CannotStart::Permission(_)) => refused = Some(why),
                Err(_) => {}
            }
        }
        Err(refused.unwrap_or_else(|| CannotStart::NotFound(PathBuf::from(name))))
    }
}

impl FoundProgram {
    pub fn at(path: PathBuf) -> FoundProgram {
        let is_elf = first_bytes(&path).is_some_and(|bytes| is_elf(&bytes));
        FoundProgram { path, is_elf }
    }
}

fn executable(path: &Path) -> Result<(), CannotStart> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => CannotStart::Permission(path.to_owned()),
        io::ErrorKind::NotFound => CannotStart::NotFound(path.to_owned()),
        _ => CannotStart::Other { path: path.to_owned(), error },
    })?;
    if metadata.is_dir() {
        return Err(CannotStart::Directory(path.to_owned()));
    }
    let allowed = accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok();
    // Root may pass faccessat on some filesystems where no execute bit is set at all.
    if !allowed || metadata.permissions().mode() & 0o111 == 0 {
        return Err(CannotStart::Permission(path.to_owned()));
    }
    Ok(())
}

/// What an execve that failed with `error` on `path` means to a person.
pub(crate) fn explain(path: PathBuf, error: io::Error) -> CannotStart {
    match error.raw_os_error() {
        Some(libc::ENOENT) => match interpreter_of(&path) {
            Some(interpreter) => CannotStart::NoInterpreter { path, interpreter },
            None => CannotStart::NotFound(path),
        },
        Some(libc::EACCES) => CannotStart::Permission(path),
        Some(libc::ENOEXEC) => match foreign_machine(&path) {
            Some(machine) => CannotStart::WrongMachine { path, machine },
            None => CannotStart::Other { path, error },
        },
        _ => CannotStart::Other { path, error },
    }
}

/// The first bytes of a file; enough for a `#!` line and for ELF's headers.
fn first_bytes(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(4096).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn interpreter_of(path: &Path) -> Option<String> {
    let bytes = first_bytes(path)?;
    if let Some(line) = bytes.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next()?;
        let line = String::from_utf8_lossy(line);
        return line.split_whitespace().next().map(str::to_owned);
    }
    elf_interpreter(&bytes)
}

/// PT_INTERP of a little-endian ELF file (elf(5)), if it is among its first bytes.
fn elf_interpreter(bytes: &[u8]) -> Option<String> {
    let number = |at: usize, size: usize| {
        let field = bytes.get(at..at + size)?;
        Some(field.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    if !is_elf(bytes) {
        return None;
    }
    let wide = bytes.get(4) == Some(&2);
    let (headers, size, count) = match wide {
        true => (number(32, 8)?, number(54, 2)?, number(56, 2)?),
        false => (number(28, 4)?, number(42, 2)?, number(44, 2)?),
    };
    let place = |index: usize| headers.checked_add(index.checked_mul(size)?);
    let is_interpreter = |at: &usize| number(*at, 4) == Some(3);
    let at = (0..count).map_while(place).find(is_interpreter)?;
    let offset = if wide { number(at + 8, 8)? } else { number(at + 4, 4)? };
    let name = bytes.get(offset..)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Whether a program is linked statically and at a fixed address: ET_EXEC of elf(5) without a
/// PT_INTERP.
pub(crate) fn is_static_at_fixed_address(path: &Path) -> bool {
    const ET_EXEC: u8 = 2;
    first_bytes(path).is_some_and(|bytes| {
        is_elf(&bytes) && bytes.get(16) == Some(&ET_EXEC) && elf_interpreter(&bytes).is_none()
    })
}

/// Whether a program has addresses of 32 bits (ELFCLASS32 of elf(5)).
pub(crate) fn is_32_bit(path: &Path) -> bool {
    first_bytes(path).is_some_and(|bytes| is_elf(&bytes) && bytes.get(4) == Some(&1))
}

/// The file whose code runs first where a program is executed: that after `#!`, for a script.
pub(crate) fn executed(path: &Path) -> PathBuf {
    match first_bytes(path) {
        Some(bytes) if bytes.starts_with(b"#!") => interpreter_of(path).map(PathBuf::from),
        _ => None,
    }
    .unwrap_or_else(|| path.to_owned())
}

fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

fn foreign_machine(path: &Path) -> Option<String> {
    let bytes = first_bytes(path)?;
    if !is_elf(&bytes) || bytes.len() < 20 {
        return None;
    }
    let machine = match bytes[5] {
        2 => u16::from_be_bytes([bytes[18], bytes[19]]),
        _ => u16::from_le_bytes([bytes[18], bytes[19]]),
    };
    let known = MACHINES.iter().find(|(number, _)| *number == machine);
    Some(known.map_or_else(|| format!("ELF machine {machine}"), |(_, name)| (*name).to_owned()))
}

/// `e_machine` (elf.h), for the machines that clusters have or had.
#[rustfmt::skip]
const MACHINES: &[(u16, &str)] = &[
    (2, "sparc"), (3, "i386"), (8, "mips"), (20, "ppc"), (21, "ppc64"), (22, "s390"),
    (40, "arm"), (43, "sparc64"), (50, "ia64"), (62, "x86-64"), (183, "aarch64"),
    (243, "riscv"), (258, "loongarch"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str) -> Command {
        Command::of(vec![name.into()])
    }

    #[test]
    fn a_name_with_a_slash_is_taken_as_it_is() {
        assert_eq!(command("/bin/sh").file().unwrap(), Path::new("/bin/sh"));
        assert!(matches!(command("/bin").file(), Err(CannotStart::Directory(_))));
        assert!(matches!(command("/etc/passwd").file(), Err(CannotStart::Permission(_))));
        assert!(matches!(command("/nowhere/x").file(), Err(CannotStart::NotFound(_))));
    }

    #[test]
    fn exit_statuses_are_those_of_env() {
        assert_eq!(command("no-such-command-here").file().unwrap_err().exit_status(), 127);
        assert_eq!(command("/etc/passwd").file().unwrap_err().exit_status(), 126);
        assert_eq!(command("/").file().unwrap_err().exit_status(), 126);
    }
}
