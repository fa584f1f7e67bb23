//! A tree of files as it is, to be held against what it is later.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What lies in a tree: bytes, permissions, times.
#[derive(PartialEq, Eq)]
pub struct Snapshot(BTreeMap<PathBuf, Thing>);

#[derive(PartialEq, Eq)]
enum Thing {
    Directory { mode: u32, modified: (i64, i64) },
    Link(PathBuf),
    File { mode: u32, modified: (i64, i64), content: Vec<u8> },
    Other { mode: u32 },
}

impl Snapshot {
    /// What is in a directory now.
    pub fn of(directory: &Path) -> Snapshot {
        Snapshot(things(directory))
    }

    /// The paths of the regular files that begin with these bytes.
    pub fn files_that_begin_with(&self, bytes: &[u8]) -> Vec<PathBuf> {
        let begins = |thing: &Thing| matches!(thing, Thing::File { content, .. } if content.starts_with(bytes));
        let files = self.0.iter().filter(|(_, thing)| begins(thing));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// The paths that are not the same in both.
    pub fn differs_in<'a>(&'a self, other: &'a Snapshot) -> Vec<&'a Path> {
        let paths = self.0.iter().chain(&other.0);
        let mut differ: Vec<&'a Path> = paths
            .filter(|(path, _)| self.0.get(*path) != other.0.get(*path))
            .map(|(path, _)| path.as_path())
            .collect();
        differ.sort_unstable();
        differ.dedup();
        differ
    }

    /// Asserts that nothing is different.
    #[track_caller]
    pub fn assert_is(&self, other: &Snapshot) {
        assert_eq!(self.differs_in(other), Vec::<&Path>::new());
    }
}

fn things(directory: &Path) -> BTreeMap<PathBuf, Thing> {
    let (mut things, mut directories) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let seen = fs::symlink_metadata(&path).unwrap();
            let (mode, modified) = (seen.mode(), (seen.mtime(), seen.mtime_nsec()));
            let thing = if seen.is_dir() {
                directories.push(path.clone());
                Thing::Directory { mode, modified }
            } else if seen.is_symlink() {
                Thing::Link(fs::read_link(&path).unwrap())
            } else if seen.is_file() {
                Thing::File { mode, modified, content: fs::read(&path).unwrap() }
            } else {
                Thing::Other { mode }
            };
            things.insert(path, thing);
        }
    }
    things
}
