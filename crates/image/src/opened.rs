//! Which files a recorded command opened: whose content comes first in an image.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use recording::query::data;
use recording::{Kind, Nanos, PathId, Recording};

/// The files that a recorded command opened or executed, in the order in which it first used what
/// is in them, where the recording tells that; else, in which it opened them. A cold image is then
/// read from its front to its end.
pub fn opened(recording: &Recording) -> Vec<PathBuf> {
    let mut used: HashMap<PathId, Nanos> = HashMap::new();
    for access in data::accesses(recording) {
        used.entry(access.path).or_insert(access.at);
    }
    let mut asked: Vec<_> = recording
        .events
        .iter()
        .filter(|event| matches!(event.kind(), Kind::Open | Kind::Exec))
        .filter(|event| !event.outcome.failed())
        .filter_map(|event| {
            let path = event.path?;
            Some((used.get(&path).copied().unwrap_or(event.start), path))
        })
        .collect();
    asked.sort_by_key(|(at, _)| *at);
    let mut seen = HashSet::new();
    asked.retain(|(_, path)| seen.insert(*path));
    asked.iter().map(|(_, path)| PathBuf::from(OsStr::from_bytes(recording.path(*path)))).collect()
}
