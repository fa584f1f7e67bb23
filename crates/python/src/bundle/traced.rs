//! What a recording's Python looked for: in which directories, and which sources it found.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use recording::query::python::split;
use recording::{PathId, Recording};

use crate::ask::{Ask, Paths, asks};
use crate::entry::Entries;
use crate::hook::Marks;
use crate::reason::{Known, Reason};
use crate::runs::Runs;

/// What the Python of a recording looked for. Of several interpreters, the first.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// The interpreter's file (`/proc/PID/exe`).
    pub interpreter: Option<PathBuf>,
    /// Its optimization level (`-O` is 1), by the bytecode that it opened.
    pub optimize: u8,
    /// The directories that were searched, each once, in their order.
    pub directories: Vec<PathBuf>,
    /// The sources that were found, likewise.
    pub sources: Vec<PathBuf>,
    /// How many extension modules were loaded.
    pub extensions: u64,
    /// Zipped packages that were searched.
    pub archives: Vec<PathBuf>,
    /// Other interpreters that ran.
    pub others: Vec<PathBuf>,
}

/// Reads a recording. `marks` are those of the hook that the command was recorded with, if it
/// was. Paths are as Python asked for them: an import is answered under that name only.
pub fn traced(recording: &Recording, marks: Option<&Marks>) -> Traced {
    let paths = Paths::of(recording);
    let runs = Runs::of(recording, marks);
    let all = asks(recording, &paths, &runs, marks);
    let entries = Entries::of(recording, &runs, &all, marks);
    let known = Known::of(&all, &entries.known());
    let mut traced = Traced::default();
    let mut seen = Seen::default();
    let mut interpreter = None;
    for ask in all.iter().filter(|ask| ask.mark.is_none() && ask.is_yes()) {
        let Some(exec) = runs.run(ask.run).exec else { continue };
        match interpreter {
            None => {
                interpreter = Some(exec.image);
                traced.interpreter = Some(path_of(recording.path(exec.image)));
            }
            Some(known) if known != exec.image => {
                if seen.first(exec.image) {
                    traced.others.push(path_of(recording.path(exec.image)));
                }
                continue;
            }
            Some(_) => {}
        }
        if let Some(path) = ask.event.path.filter(|path| seen.first(*path)) {
            traced.see(ask, recording.path(path), known.reason(ask));
        }
    }
    let archives = known.archives.iter().map(|path| path_of(path));
    traced.archives = archives.filter(|path| path.is_file()).collect();
    traced.archives.sort();
    traced
}

#[derive(Default)]
struct Seen(HashSet<PathId>);

impl Seen {
    fn first(&mut self, path: PathId) -> bool {
        self.0.insert(path)
    }
}

impl Traced {
    fn see(&mut self, ask: &Ask, path: &[u8], reason: Reason) {
        match reason {
            Reason::Listing | Reason::Directory => {
                self.directories.push(path_of(without_slash(path)))
            }
            Reason::Source | Reason::SourceRead => self.sources.push(path_of(path)),
            Reason::Extension => self.extensions += 1,
            Reason::Bytecode => self.optimize = self.optimize.max(level(ask.split().1)),
            _ => {}
        }
    }
}

/// `x.cpython-311.opt-2.pyc` is of level 2 (PEP 488).
fn level(name: &[u8]) -> u8 {
    match name.strip_suffix(b".pyc").map(|name| split_at_opt(name)) {
        Some(Some([digit @ b'1'..=b'2'])) => digit - b'0',
        _ => 0,
    }
}

fn split_at_opt(name: &[u8]) -> Option<&[u8]> {
    let at = name.len().checked_sub(6)?;
    name[at..].strip_prefix(b".opt-")
}

/// The directory that FileFinder asks for and that a file's name is joined to.
fn without_slash(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    &path[..end]
}

fn path_of(path: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(path)).to_owned()
}

/// The directory that a source is found in as a module: above its own, if it makes a package.
pub(crate) fn searched_for(source: &Path) -> Option<&Path> {
    let bytes = source.as_os_str().as_bytes();
    let (directory, name) = split(bytes);
    let directory = if name == b"__init__.py" { split(directory).0 } else { directory };
    (directory.len() > 1).then(|| Path::new(OsStr::from_bytes(directory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytecode_says_its_optimization_level() {
        for (name, expected) in [
            ("x.cpython-311.pyc", 0),
            ("x.cpython-311.opt-1.pyc", 1),
            ("x.cpython-311.opt-2.pyc", 2),
            ("x.cpython-311.opt-12.pyc", 0),
            (".pyc", 0),
            ("opt-1", 0),
        ] {
            assert_eq!(level(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn a_package_is_searched_for_above_its_own_directory() {
        let of = |path| searched_for(Path::new(path)).map(|path| path.to_str().unwrap());
        assert_eq!(of("/v/n/__init__.py"), Some("/v"));
        assert_eq!(of("/v/n/x.py"), Some("/v/n"));
        assert_eq!(of("/x.py"), None);
    }
}
