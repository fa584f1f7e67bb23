//! Python's lines: a hook that tells them, and what it has told.
//!
//! A folder of our own, first on `PYTHONPATH`, holds a `sitecustomize.py` (Python's module
//! `site`). It takes the folder out of all that the program can see, adds an audit hook
//! (`sys.addaudithook`, PEP 578), and imports the command's own `sitecustomize`.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use watch::{Place, Stopped};

const SOURCE: &str = include_str!("hook.py");

/// The hook's folder, which is gone when this is dropped.
#[derive(Debug)]
pub struct Hook {
    /// Held for its end.
    _folder: TempDir,
    path: PathBuf,
    given: Option<OsString>,
}

/// Why there is no hook.
#[derive(Debug, thiserror::Error)]
#[error("Python's hook cannot be written to {}: {error}", .path.display())]
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
            .prefix("becalm-lines-")
            .tempdir()
            .map_err(|error| failed(&temporary, error))?;
        let path = folder.path().canonicalize().map_err(|error| failed(folder.path(), error))?;
        if path.as_os_str().as_bytes().contains(&b':') {
            let why = "PYTHONPATH cannot hold its colon; set TMPDIR to another folder";
            return Err(failed(&path, io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let file = path.join("sitecustomize.py");
        let source = match python_path {
            Some(_) => SOURCE.replace("WAS_SET = False", "WAS_SET = True"),
            None => SOURCE.to_owned(),
        };
        // Whoever the command becomes must be able to read it.
        let written = fs::write(&file, source)
            .and_then(|()| fs::set_permissions(&file, Permissions::from_mode(0o444)))
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o755)));
        written.map_err(|error| failed(&file, error))?;
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
}

/// What the hook has told and no fork has answered yet, by process and thread.
#[derive(Debug, Default)]
pub(super) struct Told {
    of: HashMap<i32, HashMap<i32, Vec<Place>>>,
}

impl Told {
    /// Takes in what a thread tells: a frame a line, each `line function file`.
    pub fn tell(&mut self, process: &Stopped, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let places = text.lines().filter_map(place).collect();
        self.of.entry(process.pid).or_default().insert(process.tid, places);
    }

    /// What the thread has told before this fork of it.
    pub fn take(&mut self, process: &Stopped) -> Option<Vec<Place>> {
        self.of.get_mut(&process.pid)?.remove(&process.tid)
    }

    /// A process has become another program, or has ended.
    pub fn forget(&mut self, pid: i32) {
        self.of.remove(&pid);
    }
}

fn place(text: &str) -> Option<Place> {
    let mut words = text.splitn(3, ' ');
    let line = words.next()?.parse().ok()?;
    let function = words.next().filter(|name| *name != "<module>").unwrap_or_default();
    // `<string>`, `<stdin>`; and what was started by a relative name, long ago.
    let file = words.next().filter(|file| file.starts_with('/'));
    Some(Place {
        file: file.map(|file| file.as_bytes().to_vec()),
        line,
        function: function.to_owned(),
    })
}
