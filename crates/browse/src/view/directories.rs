//! Directories, level by level. A call counts at the directory that its path is, where others lie
//! below it, or else at the one that its path lies in: so a row says what `becalm report --below`
//! says of that directory.

use std::collections::HashMap;

use recording::query::{clean, python::split};
use recording::{Recording, shown};

use crate::call_tree::{CallTree, GrowingTree, NOWHERE, ROOT};

/// Directories deeper than this are not told apart: a bound for hostile recordings.
const DEEPEST: usize = 64;

/// The tree.
pub fn tree(recording: &Recording) -> CallTree {
    let mut use_of = vec![PathUse::Unused; recording.path_count()];
    for event in &recording.events {
        let named = event.path.and_then(|path| use_of.get_mut(path.0 as usize));
        let used = if event.is_listing() { PathUse::Listed } else { PathUse::Named };
        named.into_iter().for_each(|path| *path = used.max(*path));
    }
    let mut directories = Directories::default();
    for (path, used) in recording.paths().zip(&use_of) {
        let path = clean(path);
        match used {
            PathUse::Unused => {}
            PathUse::Named => _ = directories.node(split(&path).0),
            PathUse::Listed => _ = directories.node(&path),
        }
    }
    let of_path: Vec<u32> =
        recording.paths().map(|path| directories.node_of_path(&clean(path))).collect();
    let mut tree = directories.tree;
    let has_none = recording.events.iter().any(|event| event.path.is_none());
    let none = if has_none { tree.below(ROOT, b"(no path)") } else { NOWHERE };
    let node = |event: &recording::Event| {
        event.path.and_then(|path| of_path.get(path.0 as usize)).copied().unwrap_or(none)
    };
    tree.grown(recording.events.iter().map(node).collect())
}

/// What is asked of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PathUse {
    Unused,
    Named,
    /// So it is a directory.
    Listed,
}

/// The directories, by their paths.
struct Directories {
    tree: GrowingTree,
    known: HashMap<Box<[u8]>, u32>,
}

impl Default for Directories {
    fn default() -> Directories {
        Directories { tree: GrowingTree::new(), known: HashMap::new() }
    }
}

impl Directories {
    /// A directory's node, and those above it.
    fn node(&mut self, directory: &[u8]) -> u32 {
        let directory = &directory[..deepest(directory)];
        if let Some(known) = self.known.get(directory) {
            return *known;
        }
        let node = match directory {
            b"/" => self.tree.add(ROOT, "/".to_owned()),
            b"" => self.tree.add(ROOT, "(relative paths)".to_owned()),
            _ => {
                let (above, name) = split(directory);
                let above = self.node(above);
                self.tree.add(above, shown(name))
            }
        };
        self.known.insert(directory.into(), node);
        node
    }

    /// Where the calls on a path count.
    fn node_of_path(&self, path: &[u8]) -> u32 {
        let path = &path[..deepest(path)];
        let known = self.known.get(path).or_else(|| self.known.get(split(path).0));
        known.copied().unwrap_or(ROOT)
    }
}

/// Where a path is too deep.
fn deepest(path: &[u8]) -> usize {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| at).nth(DEEPEST).unwrap_or(path.len())
}
