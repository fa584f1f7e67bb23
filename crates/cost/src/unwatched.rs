//! About how much each file's first open fetches, where reads were not watched.
//!
//! A program reads most of what it opens from end to end: bytecode, scripts, tables. So a file counts
//! as its size; all of them together as no more than the command got from read(2) in all, which
//! takes care of large files that are opened for their first page.

use recording::{Event, Kind, PathId, Recording};
use rustc_hash::FxHashMap;

/// What the loader reads of a library before it maps it (glibc's elf/dl-load.c: `struct filebuf`).
const LIBRARY_HEADER: u64 = 832;

/// The bytes that opens stand for.
pub(crate) struct UnwatchedBytes {
    sizes: FxHashMap<PathId, u64>,
    /// Which part of the sizes was read at most.
    part: f64,
}

impl UnwatchedBytes {
    /// Of a recording without reads; none if its reads are in it.
    pub(crate) fn of(recording: &Recording) -> Option<UnwatchedBytes> {
        if !recording.header.metadata_only {
            return None;
        }
        let reads = recording.summary.as_ref().and_then(|end| end.unwatched_reads.as_ref());
        let files = reads.into_iter().flat_map(|reads| &reads.files);
        let sizes: FxHashMap<_, _> = files.map(|(path, bytes)| (*path, bytes.0)).collect();
        let all = sizes.values().fold(0_u64, |all, bytes| all.saturating_add(*bytes));
        let read = reads.map_or(0, |reads| reads.bytes.0);
        let part = if all > read { read as f64 / all as f64 } else { 1.0 };
        Some(UnwatchedBytes { sizes, part })
    }

    /// What is read after a call, if that is the first open of a file.
    pub(crate) fn of_open(&mut self, event: &Event) -> Option<(PathId, u64)> {
        if event.kind() != Kind::Open || event.outcome.failed() {
            return None;
        }
        let path = event.path?;
        let bytes = match event.in_loader {
            true => LIBRARY_HEADER,
            false => (self.sizes.remove(&path)? as f64 * self.part) as u64,
        };
        (bytes > 0).then_some((path, bytes))
    }
}
