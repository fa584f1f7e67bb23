//! System calls on a tree, by what they ask.

use std::ops::AddAssign;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recording::query::clean;
use recording::{Kind, Recording};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// System calls on the directories and files of a tree, those on their descriptors included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TreeCalls {
    /// stat and the like, by path.
    pub stats: u64,
    /// access.
    pub accesses: u64,
    /// open of a directory or a file.
    pub opens: u64,
    /// getdents: entries of a directory.
    pub lists: u64,
    /// read.
    pub data_reads: u64,
    /// close.
    pub closes: u64,
    /// All else: fstat, readlink, fcntl…
    pub others: u64,
}

impl TreeCalls {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.metadata() + self.data_reads + self.closes + self.others
    }

    /// Those that a metadata server would serve. (A readlink or two among the others is not
    /// counted.)
    pub fn metadata(&self) -> u64 {
        self.stats + self.accesses + self.opens + self.lists
    }

    /// Those of a recording that are on these trees.
    pub fn of(recording: &Recording, trees: &[&Path]) -> TreeCalls {
        let trees: Vec<Vec<u8>> =
            trees.iter().map(|tree| clean(tree.as_os_str().as_bytes()).into_owned()).collect();
        let is_inside = |path: &[u8]| {
            let path = clean(path);
            trees.iter().any(|tree| {
                path.strip_prefix(&tree[..])
                    .is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
            })
        };
        let inside: Vec<bool> = recording.paths().map(is_inside).collect();
        let mut calls = TreeCalls::default();
        let on_tree = recording.events.iter().filter(|event| {
            event.path.is_some_and(|path| inside.get(path.0 as usize).copied().unwrap_or(false))
        });
        for event in on_tree {
            *match event.kind() {
                Kind::Stat => &mut calls.stats,
                Kind::Access => &mut calls.accesses,
                Kind::Open => &mut calls.opens,
                Kind::List => &mut calls.lists,
                Kind::Read => &mut calls.data_reads,
                Kind::Close => &mut calls.closes,
                _ => &mut calls.others,
            } += 1;
        }
        calls
    }
}

impl AddAssign for TreeCalls {
    fn add_assign(&mut self, more: TreeCalls) {
        self.stats += more.stats;
        self.accesses += more.accesses;
        self.opens += more.opens;
        self.lists += more.lists;
        self.data_reads += more.data_reads;
        self.closes += more.closes;
        self.others += more.others;
    }
}
