//! Which directories and which sources a bundle takes, in which order.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::BundleError;
use super::directory::{Directory, mtime};
use super::pack::{Left, Wanted, Why};
use super::traced::searched_for;
use super::walk::directories_below;

/// The sources, in the order of their code in the bundle.
pub(super) struct Sources {
    pub all: Vec<PathBuf>,
    /// What each was like before its code was asked for.
    pub seen: Vec<Seen>,
    /// So many of them are a trace's.
    pub traced: usize,
}

/// What a source was like.
pub(super) struct Seen {
    /// In nanoseconds since 1970.
    pub mtime: i128,
    /// In bytes.
    pub size: u64,
}

/// The directories that were searched, and those below the paths, each listed.
pub(super) fn directories(wanted: &Wanted, left: &mut Left) -> Result<Vec<Directory>, BundleError> {
    let traced = wanted.traced;
    let mut names: Vec<PathBuf> = traced.directories.clone();
    names.extend(traced.sources.iter().filter_map(|path| searched_for(path)).map(Path::to_owned));
    for path in wanted.paths {
        let path = std::path::absolute(path).map_err(|error| BundleError::file(path, error))?;
        let below = directories_below(&path, |directory| left.add(Why::Unreadable, directory))
            .map_err(|error| BundleError::file(&path, error))?;
        names.extend(below);
    }
    let mut seen = HashSet::new();
    names.retain(|name| name.parent().is_some() && seen.insert(name.clone()));
    let mut directories = Vec::new();
    for name in names {
        match Directory::list(&name, &wanted.interpreter.suffixes) {
            Ok(Some(directory)) => directories.push(directory),
            Ok(None) => left.add(Why::Name, &name),
            // An entry of sys.path may be a file, and is told of as such.
            Err(error) if error.kind() == ErrorKind::NotADirectory => {}
            Err(_) => left.add(Why::Unreadable, &name),
        }
    }
    Ok(directories)
}

impl Sources {
    /// Those of the trace that are found as modules, in its order, then all below the paths.
    pub(super) fn of(wanted: &Wanted, directories: &[Directory], left: &mut Left) -> Sources {
        let found: HashMap<PathBuf, &Directory> = directories
            .iter()
            .flat_map(|directory| directory.sources().map(move |path| (path, directory)))
            .collect();
        let traced = wanted.traced.sources.iter().filter(|path| found.contains_key(*path));
        let paths: Vec<_> =
            wanted.paths.iter().filter_map(|path| std::path::absolute(path).ok()).collect();
        let is_wanted = |directory: &&Directory| {
            paths.iter().any(|path| Path::new(&directory.path).starts_with(path))
        };
        let rest = directories.iter().filter(is_wanted).flat_map(Directory::sources);
        let mut sources = Sources { all: Vec::new(), seen: Vec::new(), traced: 0 };
        let mut known = HashSet::new();
        for path in traced {
            if known.insert(path.clone()) {
                sources.add(path.clone(), left);
            }
        }
        sources.traced = sources.all.len();
        for path in rest {
            if known.insert(path.clone()) {
                sources.add(path, left);
            }
        }
        sources
    }

    fn add(&mut self, path: PathBuf, left: &mut Left) {
        match fs::metadata(&path) {
            Ok(status) => {
                self.seen.push(Seen { mtime: mtime(&status), size: status.len() });
                self.all.push(path);
            }
            Err(_) => left.add(Why::Unreadable, &path),
        }
    }
}
