//! What importlib's `FileFinder` would find in a directory (`FileFinder.find_spec`, in CPython's
//! Lib/importlib/_bootstrap_external.py).

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory that is searched for modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directory {
    /// Its path, as Python says it.
    pub path: String,
    /// When it was last changed, in nanoseconds since 1970.
    pub mtime: i128,
    /// The modules in it: the last part of their name, and what follows the directory and that
    /// name in the path of the file. `/` is a directory without `__init__`: of a namespace package.
    pub modules: BTreeMap<String, String>,
}

/// Of a directory without `__init__`.
pub(crate) const NAMESPACE: &str = "/";

impl Directory {
    /// Lists a directory. `suffixes` are those of the interpreter's modules, the first first.
    ///
    /// None where a name or the path itself cannot be said in the index: not UTF-8, or with a
    /// tab or a line's end in it.
    pub(crate) fn list(path: &Path, suffixes: &[String]) -> io::Result<Option<Directory>> {
        // Its time first: what is changed while it is listed makes it another.
        let mtime = mtime(&fs::metadata(path)?);
        let Some(name) = path.to_str().filter(|path| is_plain(path)) else { return Ok(None) };
        let mut directory = Directory { path: name.to_owned(), mtime, modules: BTreeMap::new() };
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name();
            match name.to_str().filter(|name| is_plain(name)) {
                Some(name) => directory.see(&entry, name, suffixes),
                None => return Ok(None),
            }
        }
        Ok(Some(directory))
    }

    /// The sources of the modules that are found in it.
    pub(crate) fn sources(&self) -> impl Iterator<Item = PathBuf> {
        let sources = self.modules.iter().filter(|(_, suffix)| suffix.ends_with(".py"));
        sources.map(|(tail, suffix)| PathBuf::from(format!("{}/{tail}{suffix}", self.path)))
    }

    fn see(&mut self, entry: &DirEntry, name: &str, suffixes: &[String]) {
        // A module's name has no dot: all from the first on is the suffix.
        let (tail, suffix) = name.split_at(name.find('.').unwrap_or(name.len()));
        if tail.is_empty() {
            return;
        }
        let found = if suffix.is_empty() {
            in_directory(&entry.path(), suffixes)
        } else {
            let is_module = suffixes.iter().any(|known| known == suffix);
            (is_module && entry.path().is_file()).then(|| suffix.to_owned())
        };
        let Some(found) = found else { return };
        match self.modules.get_mut(tail) {
            Some(known) if rank(&found, suffixes) < rank(known, suffixes) => *known = found,
            Some(_) => {}
            None => drop(self.modules.insert(tail.to_owned(), found)),
        }
    }
}

/// What is found by a directory's name: `/__init__.py`, or a part of a namespace package.
fn in_directory(path: &Path, suffixes: &[String]) -> Option<String> {
    if !path.is_dir() {
        return None;
    }
    let names = suffixes.iter().map(|suffix| format!("__init__{suffix}"));
    let init = names.into_iter().find(|name| path.join(name).is_file());
    Some(init.map_or_else(|| NAMESPACE.to_owned(), |name| format!("/{name}")))
}

/// Packages come before modules, those by their suffix, and namespace packages last.
fn rank(found: &str, suffixes: &[String]) -> usize {
    match found {
        NAMESPACE => usize::MAX,
        found if found.starts_with('/') => 0,
        found => 1 + suffixes.iter().position(|suffix| suffix == found).unwrap_or(suffixes.len()),
    }
}

fn is_plain(name: &str) -> bool {
    !name.contains(['\t', '\n', '\r', '\0'])
}

/// When a file was last changed, in nanoseconds since 1970.
pub(crate) fn mtime(of: &fs::Metadata) -> i128 {
    i128::from(of.mtime()) * 1_000_000_000 + i128::from(of.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_first_is_what_file_finder_finds_first() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| fs::write(directory.path().join(name), "").unwrap();
        for package in ["both", "empty", "native", "dotted.info"] {
            fs::create_dir(directory.path().join(package)).unwrap();
        }
        for name in
            ["both.py", "both/__init__.py", "empty.py", "native/__init__.so", "a.so", "a.py"]
        {
            file(name);
        }
        for name in ["b.pyc", "b.py", "data.txt", "x.y.py", ".hidden.py", "ü ü.py"] {
            file(name);
        }
        let suffixes = [".so", ".py", ".pyc"].map(str::to_owned);
        let found = Directory::list(directory.path(), &suffixes).unwrap().unwrap();
        let expected = [
            ("a", ".so"),
            ("b", ".py"),
            ("both", "/__init__.py"),
            ("empty", ".py"),
            ("native", "/__init__.so"),
            ("ü ü", ".py"),
        ];
        let expected = expected.map(|(tail, suffix)| (tail.to_owned(), suffix.to_owned()));
        assert_eq!(found.modules, BTreeMap::from(expected));
    }

    #[test]
    fn a_directory_with_a_name_that_the_index_cannot_say_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a\tb.py"), "").unwrap();
        assert_eq!(Directory::list(directory.path(), &[]).unwrap(), None);
    }
}
