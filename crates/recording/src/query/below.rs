//! How often something below one directory was asked for.

use schemars::JsonSchema;
use serde::Serialize;

use super::clean;
use crate::header::is_below;
use crate::{Kind, Recording};

/// What was asked of the files below one directory, the directory itself included.
///
/// It answers what people ask of strace's log: `grep /home/me log | grep -c open`. Each number
/// comes with the part of it that failed (ENOENT, ENOTDIR).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PrefixCounts {
    /// open, openat, creat…
    pub opens: u64,
    /// Of those, failed lookups.
    pub opens_enoent: u64,
    /// stat, lstat, newfstatat, statx and getxattr, by path.
    pub stats: u64,
    /// Of those, failed lookups.
    pub stats_enoent: u64,
    /// access, faccessat.
    pub accesses: u64,
    /// Of those, failed lookups.
    pub accesses_enoent: u64,
    /// readlink.
    pub readlinks: u64,
    /// Of those, failed lookups.
    pub readlinks_enoent: u64,
    /// getdents: a directory's entries.
    pub lists: u64,
    /// execve.
    pub execs: u64,
    /// Of those, failed lookups.
    pub execs_enoent: u64,
    /// Other metadata operations: chdir, statfs, and what changes the tree (mkdir, unlink…).
    pub others: u64,
    /// All of the above.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
    /// How many different paths were named.
    pub distinct: u64,
}

/// Counts what was asked of the files below a directory, which may have several names. Paths are
/// compared by whole components after lexical clean-up ([`clean`]); a call counts by its first path.
pub fn prefix_counts(recording: &Recording, below: &[Vec<u8>]) -> PrefixCounts {
    let inside = paths_below(recording, below);
    let mut named = vec![false; recording.path_count()];
    let mut counts = PrefixCounts::default();
    for event in recording.events.iter().filter(|event| event.is_metadata()) {
        let Some(path) = event.path.filter(|path| inside[path.0 as usize]) else { continue };
        counts.add(event.kind(), u64::from(event.is_missing()));
        counts.distinct += u64::from(!named[path.0 as usize]);
        named[path.0 as usize] = true;
    }
    counts
}

/// Of each path, by number, whether it is one of the directories or below it.
pub(super) fn paths_below(recording: &Recording, directories: &[Vec<u8>]) -> Vec<bool> {
    let directories: Vec<_> = directories.iter().map(|directory| clean(directory)).collect();
    let is_inside = |path| {
        let path = clean(path);
        directories.iter().any(|directory| is_below(&path, directory))
    };
    recording.paths().map(is_inside).collect()
}

impl PrefixCounts {
    fn add(&mut self, kind: Kind, enoent: u64) {
        self.metadata_ops += 1;
        self.enoent += enoent;
        let mut none = 0;
        let (calls, failed) = match kind {
            Kind::Open => (&mut self.opens, &mut self.opens_enoent),
            Kind::Stat => (&mut self.stats, &mut self.stats_enoent),
            Kind::Access => (&mut self.accesses, &mut self.accesses_enoent),
            Kind::Readlink => (&mut self.readlinks, &mut self.readlinks_enoent),
            Kind::Exec => (&mut self.execs, &mut self.execs_enoent),
            Kind::List => (&mut self.lists, &mut none),
            _ => (&mut self.others, &mut none),
        };
        *calls += 1;
        *failed += enoent;
    }
}
