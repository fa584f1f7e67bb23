//! The marker hook: what makes Python say where each import begins and ends.
//!
//! A folder of our own, first on `PYTHONPATH`, holds a `sitecustomize.py` (Python's module
//! `site`). It takes the folder out of all that the program can see, has
//! importlib's lock of a module that is being imported tell when it is taken and given back, and
//! imports the command's own `sitecustomize`. Each
//! mark is an access(2) of a path below the folder that does not exist, so marks are in the
//! recording, in their place among the program's own calls.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

const SOURCE: &str = include_str!("hook.py");

/// The hook's folder, which is gone when this is dropped.
pub struct Hook {
    /// Held for its end.
    _folder: TempDir,
    path: PathBuf,
    given: Option<OsString>,
}

/// Why there is no hook.
#[derive(Debug, thiserror::Error)]
#[error("the marker hook cannot be written to {}: {error}", .path.display())]
pub struct HookError {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub error: io::Error,
}

impl Hook {
    /// Writes the hook, for a command whose `PYTHONPATH` is this.
    ///
    /// # Errors
    /// [`HookError`].
    pub fn new(python_path: Option<&OsStr>) -> Result<Hook, HookError> {
        let failed = |path: &Path, error| HookError { path: path.to_owned(), error };
        let temporary = std::env::temp_dir();
        let folder = tempfile::Builder::new()
            .prefix("becalm-imports-")
            .tempdir()
            .map_err(|error| failed(&temporary, error))?;
        let path = folder.path().canonicalize().map_err(|error| failed(folder.path(), error))?;
        let file = path.join("sitecustomize.py");
        if path.as_os_str().as_bytes().contains(&b':') {
            let why = "PYTHONPATH cannot hold its colon; set TMPDIR to another folder";
            return Err(failed(&path, io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let source = match python_path {
            Some(_) => SOURCE.replace("WAS_SET = False", "WAS_SET = True"),
            None => SOURCE.to_owned(),
        };
        // Whoever the command becomes must be able to read it.
        let readable = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode))
                .map_err(|error| failed(path, error))
        };
        fs::write(&file, source).map_err(|error| failed(&file, error))?;
        readable(&file, 0o444)?;
        readable(&path, 0o755)?;
        Ok(Hook { _folder: folder, path, given: python_path.map(OsStr::to_owned) })
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

    /// What tells its marks from a program's own calls.
    pub fn marks(&self) -> Marks {
        Marks { folder: self.path.as_os_str().as_bytes().to_vec() }
    }
}

/// Whether the hook may be brought to a command: not to `python -S`, which runs no hook, so that
/// the program would see the hook's folder on its `sys.path`. (`-E` and `-I` ignore PYTHONPATH.)
pub fn may_hook(argv: &[OsString]) -> bool {
    let Some((program, arguments)) = argv.split_first() else { return false };
    let name = Path::new(program).file_name().unwrap_or_default().as_bytes();
    !name.starts_with(b"python") || !skips_site(arguments)
}

/// Whether Python's options (before the script, `-c` or `-m`) have `-S` among them.
fn skips_site(arguments: &[OsString]) -> bool {
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
                b'S' => return true,
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

/// Tells marks in a recording from the program's own calls.
#[derive(Clone, Debug)]
pub struct Marks {
    folder: Vec<u8>,
}

/// One mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark<'a> {
    /// From here on the process says what it imports.
    Start,
    /// An import of this module begins.
    Begin(&'a [u8]),
    /// It ends.
    End(&'a [u8]),
    /// `sys.path` has this entry, at this place.
    Path(u32, &'a [u8]),
    /// Python asked for the folder: no mark, and not the program's either.
    Folder,
    /// Python asked for the hook's file in it.
    Hook,
}

impl Marks {
    /// What a path means, if it is the hook's.
    pub(crate) fn read<'a>(&self, path: &'a [u8]) -> Option<Mark<'a>> {
        let rest = path.strip_prefix(&self.folder[..])?;
        if rest.is_empty() {
            return Some(Mark::Folder);
        }
        let rest = rest.strip_prefix(b"/")?;
        let (what, about) = match rest.iter().position(|byte| *byte == b'/') {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, &b""[..]),
        };
        Some(match what {
            b"start" => Mark::Start,
            b"begin" => Mark::Begin(about),
            b"end" => Mark::End(about),
            b"path" => entry(about).unwrap_or(Mark::Hook),
            _ => Mark::Hook,
        })
    }
}

/// `3=/usr/lib/python3.11`.
fn entry(about: &[u8]) -> Option<Mark<'_>> {
    let at = about.iter().position(|byte| *byte == b'=')?;
    let place = std::str::from_utf8(&about[..at]).ok()?.parse().ok()?;
    Some(Mark::Path(place, &about[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_below_the_folder_and_nothing_beside_it_is_one() {
        let marks = Marks { folder: b"/tmp/h".to_vec() };
        let read = |path: &'static str| marks.read(path.as_bytes());
        assert_eq!(read("/tmp/h/start"), Some(Mark::Start));
        assert_eq!(read("/tmp/h/begin/numpy.core"), Some(Mark::Begin(b"numpy.core")));
        assert_eq!(read("/tmp/h/end/a/b"), Some(Mark::End(b"a/b")));
        assert_eq!(read("/tmp/h/path/12=/usr/a=b"), Some(Mark::Path(12, b"/usr/a=b")));
        assert_eq!(read("/tmp/h/path/0="), Some(Mark::Path(0, b"")));
        assert_eq!(read("/tmp/h/path/x=/usr"), Some(Mark::Hook));
        assert_eq!(read("/tmp/h"), Some(Mark::Folder));
        assert_eq!(read("/tmp/h/__pycache__/sitecustomize.pyc"), Some(Mark::Hook));
        assert_eq!(read("/tmp/hook/begin/x"), None);
    }

    #[test]
    fn a_python_without_site_is_not_hooked() {
        let may = |line: &str| may_hook(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for line in ["python3 -S x.py", "/usr/bin/python3.11 -uS -c S", "python -X dev -W i -S"] {
            assert!(!may(line), "{line}");
        }
        for line in
            ["python3 x.py -S", "python3 -c S -S", "python3 -X S", "python -WS -m S", "sh -S"]
        {
            assert!(may(line), "{line}");
        }
    }

    #[test]
    fn the_commands_own_folders_follow_the_hooks() {
        let list = |given: Option<&str>| {
            let hook = Hook::new(given.map(OsStr::new)).unwrap();
            let list = hook.python_path().into_string().unwrap();
            list.replace(hook.path.to_str().unwrap(), "HOOK")
        };
        assert_eq!(list(None), "HOOK");
        assert_eq!(list(Some("")), "HOOK");
        assert_eq!(list(Some("/a:/b")), "HOOK:/a:/b");
    }
}
