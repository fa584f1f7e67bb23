//! About how much each file's first open fetches, where reads were not watched.
//!
//! A program reads most of what it opens from end to end: bytecode, scripts, tables. So a file counts
//! as its size; all of them together as no more than the command got from read(2) in all, which
//! takes care of large files that are opened for their first page.

use recording::{Event, Kind, PathId, Recording};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the loader reads of a library before it maps it (glibc's elf/dl-load.c: `struct filebuf`).
const LIBRARY_HEADER: u64 = 832;

/// How it is known what a start reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadsKnown {
    /// Reads were watched.
    Watched,
    /// They were not; sizes of files and what was read in all bound it.
    Bounded,
    /// They were not, and nothing tells: no data is in the predicted wait.
    NotWatched,
}

impl ReadsKnown {
    /// Of a recording.
    pub fn of(recording: &Recording) -> ReadsKnown {
        let reads = recording.summary.as_ref().and_then(|end| end.unwatched_reads.as_ref());
        match recording.header.metadata_only {
            false => ReadsKnown::Watched,
            true if reads.is_some() => ReadsKnown::Bounded,
            true => ReadsKnown::NotWatched,
        }
    }

    /// What that means for a prediction, if it is not all there is.
    pub(crate) fn assumption(self) -> Option<&'static str> {
        match self {
            ReadsKnown::Watched => None,
            ReadsKnown::Bounded => Some(
                "Reads were not watched: a file that was opened to be read counts as its size, \
                 all of them as no more than the command read in all (becalm check --data counts).",
            ),
            ReadsKnown::NotWatched => Some(
                "Reads were not watched, and nothing tells how much was read: data is left out \
                 (becalm check --data counts it).",
            ),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use recording::{ByteUnits, Header, UnwatchedReads};
    use testkit::made::{Made, ask, header};

    use crate::RecordedStart;

    /// Bytes of a start that opens a library and files of these sizes, having read so much in all.
    fn bytes(sizes: &[(&str, u64)], read: u64) -> u64 {
        let mut made = Made::with(&Header { metadata_only: true, ..header() });
        let command = made.command("/bin/demo");
        made.call(command, ask("openat", "/lib/libx.so").loading());
        let mut files = Vec::new();
        for (path, size) in sizes {
            made.call(command, ask("openat", *path));
            made.call(command, ask("openat", *path));
            files.push((made.writer.path(path.as_bytes()), ByteUnits(*size)));
        }
        made.writer.unwatched_reads(UnwatchedReads { bytes: ByteUnits(read), files });
        RecordedStart::of(&made.recording(), &[], None).bytes()
    }

    #[test]
    fn a_file_counts_as_its_size_once_and_a_library_as_its_header() {
        assert_eq!(bytes(&[("/a", 5000), ("/b", 300)], 9000), 832 + 5300);
    }

    #[test]
    fn no_more_is_fetched_than_was_read() {
        assert_eq!(bytes(&[("/large", 1 << 40), ("/b", 300)], 4096), 832 + 4095);
        assert_eq!(bytes(&[("/never", 1 << 40)], 0), 832);
    }
}
