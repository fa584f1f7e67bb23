//! Which files a recorded command opened: whose content comes first in an image.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use image_format::squash::UsedParts;
use recording::query::data::{self, DataUse, Ranges};
use recording::{FileRange, Kind, Nanos, PathId, Recording, Touch};

use crate::as_traced::leading;

/// A page fault that finds nothing in memory has so many bytes before it and after it read, too
/// (mm/filemap.c, `do_sync_mmap_readahead`, of 128 KiB).
const AROUND_FAULT: u64 = 64 << 10;

/// What a recorded command used of the files that it opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedFiles {
    /// Which files: in the order of their first use.
    pub files: Vec<PathBuf>,
    /// Which parts of them; none: nobody knows.
    pub used: Option<UsedParts>,
    /// The words by which the command is known again.
    pub command: Vec<String>,
}

impl TracedFiles {
    /// What a recording says of it.
    pub fn of(recording: &Recording) -> TracedFiles {
        TracedFiles {
            files: opened(recording),
            used: used(recording),
            command: leading(&recording.header.argv).to_vec(),
        }
    }
}

/// The files that a recorded command opened or executed, in the order in which it first used what
/// is in them, where the recording tells that; else, in which it opened them. A cold image is then
/// read from its front to its end.
fn opened(recording: &Recording) -> Vec<PathBuf> {
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

/// Which parts of files a recorded command used, by what is read when it does; none where the
/// recording does not have that.
fn used(recording: &Recording) -> Option<UsedParts> {
    if !recording.header.page_faults || recording.header.metadata_only {
        return None;
    }
    let mut used: HashMap<PathId, Ranges> = HashMap::new();
    for access in data::accesses(recording) {
        let (offset, bytes) = match access.how {
            DataUse::Read => (access.range.offset, access.range.bytes),
            DataUse::Touched => {
                let offset = access.range.offset.saturating_sub(AROUND_FAULT);
                (offset, access.range.offset + Touch::AROUND + AROUND_FAULT - offset)
            }
        };
        used.entry(access.path).or_default().take_in(FileRange { offset, bytes });
    }
    let path = |path| PathBuf::from(OsStr::from_bytes(recording.path(path)));
    Some(used.into_iter().map(|(id, ranges)| (path(id), ranges.all().collect())).collect())
}
