//! Which files a recorded command opened: whose content comes first in an image.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use recording::{Kind, Recording};

/// The files that a recorded command opened or executed, in the order in which it first did.
pub fn opened(recording: &Recording) -> Vec<PathBuf> {
    let mut asked: Vec<_> = recording
        .events
        .iter()
        .filter(|event| matches!(event.kind(), Kind::Open | Kind::Exec))
        .filter(|event| !event.outcome.failed())
        .filter_map(|event| Some((event.start, event.path?)))
        .collect();
    asked.sort_by_key(|(at, _)| *at);
    let mut seen = HashSet::new();
    asked.retain(|(_, path)| seen.insert(*path));
    asked.iter().map(|(_, path)| PathBuf::from(OsStr::from_bytes(recording.path(*path)))).collect()
}
