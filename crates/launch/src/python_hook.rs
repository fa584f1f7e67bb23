//! Code of becalm's that each Python of a command runs first, and that the program cannot see.
//!
//! A directory of our own, first on `PYTHONPATH`, holds a `sitecustomize.py` (Python's module
//! `site`). It takes the directory out of all that the program can see, does what it is for, and
//! imports the command's own `sitecustomize`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::scratch::ScratchDirectory;

const SOURCE: &str = include_str!("python_hook.py");

/// The hook's directory, which is gone when this is dropped.
#[derive(Debug)]
pub struct PythonHook {
    /// Held for its end.
    _directory: ScratchDirectory,
    path: PathBuf,
    given: Option<OsString>,
}

/// Why there is no hook.
#[derive(Debug, thiserror::Error)]
#[error("Python's hook cannot be written: {0}")]
pub struct HookError(io::Error);

impl PythonHook {
    /// Writes the hook, for a command whose `PYTHONPATH` is this. `code` is Python, of any
    /// version, and defines `begin(here, os, sys)`, which is called in each Python: `here` is the
    /// hook's directory, the others are the modules of that name. The directory's name begins with
    /// `prefix`.
    ///
    /// # Errors
    /// [`HookError`].
    pub fn write(
        prefix: &str,
        code: &str,
        python_path: Option<&OsStr>,
    ) -> Result<PythonHook, HookError> {
        let mut source = SOURCE.to_owned();
        if let Some(given) = python_path {
            source = source.replace("WAS_SET = False", "WAS_SET = True");
            if !given.is_empty() {
                source = source.replace("WAS_EMPTY = True", "WAS_EMPTY = False");
            }
        }
        let fill = |directory: &Path| {
            let path = directory.canonicalize()?;
            if path.as_os_str().as_bytes().contains(&b':') {
                let why = "PYTHONPATH cannot hold its colon; set TMPDIR to another directory";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            let file = path.join("sitecustomize.py");
            fs::write(&file, format!("{code}\n\n{source}"))?;
            // Whoever the command becomes must be able to read it.
            fs::set_permissions(&file, Permissions::from_mode(0o444))?;
            fs::set_permissions(&path, Permissions::from_mode(0o755))?;
            Ok(path)
        };
        let (directory, path) = ScratchDirectory::filled(prefix, fill).map_err(HookError)?;
        Ok(PythonHook { _directory: directory, path, given: python_path.map(OsStr::to_owned) })
    }

    /// The `PYTHONPATH` that brings the hook to a command.
    pub fn python_path(&self) -> OsString {
        let mut list = self.path.clone().into_os_string();
        if let Some(given) = self.given.as_ref().filter(|given| !given.is_empty()) {
            list.push(":");
            list.push(given);
        }
        list
    }

    /// Its directory, as its code knows it.
    pub fn directory(&self) -> &Path {
        &self.path
    }
}

/// Whether the hook may be brought to a command: not to a Python that does not run it, which would
/// see the hook's directory, on its `sys.path` (`-S`) or in its environment (`-E`, `-I`).
pub fn takes_hook(argv: &[OsString]) -> bool {
    let Some((program, arguments)) = argv.split_first() else { return false };
    let name = Path::new(program).file_name().unwrap_or_default().as_bytes();
    !name.starts_with(b"python") || !runs_without(arguments)
}

/// Whether Python's options (before the script, `-c` or `-m`) have one of those among them.
fn runs_without(arguments: &[OsString]) -> bool {
    let mut arguments = arguments.iter().map(|argument| argument.as_bytes());
    while let Some(argument) = arguments.next() {
        let Some(options) = argument.strip_prefix(b"-").filter(|rest| !rest.is_empty()) else {
            return false;
        };
        if argument.starts_with(b"--") {
            // Of the long ones only this has a value of its own.
            if argument == b"--check-hash-based-pycs" {
                arguments.next();
            }
            continue;
        }
        for (at, option) in options.iter().enumerate() {
            match option {
                b'S' | b'E' | b'I' => return true,
                b'c' | b'm' => return false,
                b'W' | b'X' => {
                    if at + 1 == options.len() {
                        arguments.next();
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_own_directories_follow_the_hooks() {
        let list = |given: Option<&str>| {
            let hook = PythonHook::write("hook-", "", given.map(OsStr::new)).unwrap();
            let list = hook.python_path().into_string().unwrap();
            list.replace(hook.path.to_str().unwrap(), "HOOK")
        };
        assert_eq!(list(None), "HOOK");
        assert_eq!(list(Some("")), "HOOK");
        assert_eq!(list(Some("/a:/b")), "HOOK:/a:/b");
    }

    #[test]
    fn a_python_that_runs_no_hook_is_not_given_one() {
        let may = |line: &str| takes_hook(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for line in [
            "python3 -S x.py",
            "/usr/bin/python3.11 -uS -c S",
            "python -X dev -W i -S",
            "python3 -I x.py",
            "python3 -Es -m x",
            "python3 -X utf8 -bE x.py",
        ] {
            assert!(!may(line), "{line}");
        }
        for line in [
            "python3 x.py -I",
            "python3 -X E -c I",
            "python3 -c S -S",
            "python3 -X S",
            "python -WS -m S",
            "sh -S",
        ] {
            assert!(may(line), "{line}");
        }
    }
}
