//! The marker hook: what makes Python say where each import begins and ends.
//!
//! Brought to each Python by [`PythonHook`], it has importlib's lock of a module that is being
//! imported tell when it is taken and given back. Each mark is an access(2) of a path below the
//! hook's directory that does not exist, so marks are in the recording, in their place among the
//! program's own calls.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use launch::{HookError, PythonHook};

const SOURCE: &str = include_str!("hook.py");

/// The hook's directory, which is gone when this is dropped.
pub struct Hook(PythonHook);

impl Hook {
    /// Writes the hook, for a command whose `PYTHONPATH` is this.
    ///
    /// # Errors
    /// [`HookError`].
    pub fn new(python_path: Option<&OsStr>) -> Result<Hook, HookError> {
        PythonHook::write("becalm-imports-", SOURCE, python_path).map(Hook)
    }

    /// The `PYTHONPATH` that brings the hook to a command.
    pub fn python_path(&self) -> OsString {
        self.0.python_path()
    }

    /// What tells its marks from a program's own calls.
    pub fn marks(&self) -> Marks {
        Marks { directory: self.0.directory().as_os_str().as_bytes().to_vec() }
    }
}

/// Tells marks in a recording from the program's own calls.
#[derive(Clone, Debug)]
pub struct Marks {
    directory: Vec<u8>,
}

/// One mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookMark<'a> {
    /// From here on the process says what it imports.
    Start,
    /// An import of this module begins.
    Begin(&'a [u8]),
    /// It ends.
    End(&'a [u8]),
    /// `sys.path` has this entry, at this place.
    Path(u32, &'a [u8]),
    /// Python asked for the directory: no mark, and not the program's either.
    Directory,
    /// Python asked for the hook's file in it.
    Hook,
}

impl Marks {
    /// What a path means, if it is the hook's.
    pub(crate) fn read<'a>(&self, path: &'a [u8]) -> Option<HookMark<'a>> {
        let rest = path.strip_prefix(&self.directory[..])?;
        if rest.is_empty() {
            return Some(HookMark::Directory);
        }
        let rest = rest.strip_prefix(b"/")?;
        let (what, about) = match rest.iter().position(|byte| *byte == b'/') {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, &b""[..]),
        };
        Some(match what {
            b"start" => HookMark::Start,
            b"begin" => HookMark::Begin(about),
            b"end" => HookMark::End(about),
            b"path" => entry(about).unwrap_or(HookMark::Hook),
            _ => HookMark::Hook,
        })
    }
}

/// `3=/usr/lib/python3.11`.
fn entry(about: &[u8]) -> Option<HookMark<'_>> {
    let at = about.iter().position(|byte| *byte == b'=')?;
    let place = std::str::from_utf8(&about[..at]).ok()?.parse().ok()?;
    Some(HookMark::Path(place, &about[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_below_the_directory_and_nothing_beside_it_is_one() {
        let marks = Marks { directory: b"/tmp/h".to_vec() };
        let read = |path: &'static str| marks.read(path.as_bytes());
        assert_eq!(read("/tmp/h/start"), Some(HookMark::Start));
        assert_eq!(read("/tmp/h/begin/numpy.core"), Some(HookMark::Begin(b"numpy.core")));
        assert_eq!(read("/tmp/h/end/a/b"), Some(HookMark::End(b"a/b")));
        assert_eq!(read("/tmp/h/path/12=/usr/a=b"), Some(HookMark::Path(12, b"/usr/a=b")));
        assert_eq!(read("/tmp/h/path/0="), Some(HookMark::Path(0, b"")));
        assert_eq!(read("/tmp/h/path/x=/usr"), Some(HookMark::Hook));
        assert_eq!(read("/tmp/h"), Some(HookMark::Directory));
        assert_eq!(read("/tmp/h/__pycache__/sitecustomize.pyc"), Some(HookMark::Hook));
        assert_eq!(read("/tmp/hook/begin/x"), None);
    }
}
