//! The parts of a file that take no room on its filesystem, and stay so: a file of 200 GB with
//! one block in it is rewritten as one.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::SeekFrom;

use crate::Edit;

/// In a hole, as much as this is written or not: no filesystem has smaller blocks.
const PIECE: usize = 512;

/// Ranges of bytes, in order, apart from each other.
#[derive(Debug, Default)]
pub(crate) struct Holes(Vec<Range<u64>>);

impl Holes {
    /// Those of a file of which fstat(2) said `found`. Where the filesystem does not tell, any part that is zero
    /// may be one, if the file takes less room than it has bytes.
    pub(crate) fn of(file: &File, found: &Metadata) -> io::Result<Holes> {
        let size = found.len();
        let mut holes = Vec::new();
        let mut at = 0;
        while at < size {
            // There is always one at the end.
            let Ok(start) = rustix::fs::seek(file, SeekFrom::Hole(at)) else { break };
            if start >= size {
                break;
            }
            let end = rustix::fs::seek(file, SeekFrom::Data(start)).unwrap_or(size).min(size);
            if start >= end {
                break;
            }
            holes.push(start..end);
            at = end;
        }
        let taken = found.blocks().saturating_mul(512);
        if holes.is_empty() && taken < size {
            holes.push(0..size);
        }
        Ok(Holes(holes))
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These and others.
    pub(crate) fn with(mut self, more: &[(u64, u64)]) -> Holes {
        self.0.extend(more.iter().map(|(start, end)| *start..*end));
        self.0.sort_unstable_by_key(|hole| hole.start);
        self.0.dedup_by(|next, hole| {
            let touches = next.start <= hole.end;
            if touches {
                hole.end = hole.end.max(next.end);
            }
            touches
        });
        self
    }

    /// Those that edits write into, or right behind: these are no longer what they were.
    pub(crate) fn filled_by(&self, edits: &[Edit]) -> Vec<(u64, u64)> {
        let fills = |edit: &Edit, hole: &Range<u64>| {
            edit.offset <= hole.end && edit.offset + edit.old.len() as u64 > hole.start
        };
        let is_filled = |hole: &&Range<u64>| edits.iter().any(|edit| fills(edit, hole));
        self.0.iter().filter(is_filled).map(|hole| (hole.start, hole.end)).collect()
    }

    /// Writes bytes that belong at `from`, but for those in holes that are zero: an empty file
    /// has these already.
    pub(crate) fn write_around(&self, file: &File, bytes: &[u8], from: u64) -> io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            let (length, is_hole) = self.piece(from + at as u64, bytes.len() - at);
            let piece = &bytes[at..at + length];
            if !is_hole || piece.iter().any(|byte| *byte != 0) {
                file.write_all_at(piece, from + at as u64)?;
            }
            at += length;
        }
        Ok(())
    }

    /// How many of the next bytes, at most `most`, go together; whether they lie in a hole.
    fn piece(&self, at: u64, most: usize) -> (usize, bool) {
        let within = |end: u64| usize::try_from(end - at).unwrap_or(usize::MAX).min(most);
        let (begun, later) = self.0.split_at(self.0.partition_point(|hole| hole.start <= at));
        match begun.last().filter(|hole| hole.end > at) {
            Some(hole) => (within(hole.end).min(PIECE), true),
            None => (later.first().map_or(most, |next| within(next.start)), false),
        }
    }
}
