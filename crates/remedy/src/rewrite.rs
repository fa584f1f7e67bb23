//! Writes the patched version of a file into another, in one pass.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use recording::ByteUnits;

use crate::change::Version;
use crate::digest::Hasher;
use crate::holes::Holes;
use crate::{Edit, Error, Seen};

/// How much is in memory at a time.
const CHUNK: usize = 1 << 20;

/// A reflink spares the disk, but costs more than to write a small file.
const WORTH_A_REFLINK: u64 = 1 << 20;

/// What goes wrong.
pub(crate) enum RewriteFailure {
    /// The source is not what the edits were made for; why.
    Other(String),
    /// Reading failed.
    Read(io::Error),
    /// Writing failed.
    Write(io::Error),
}

impl RewriteFailure {
    /// The same with the paths of what was read and what was written.
    pub(crate) fn at(self, source: &Path, target: &Path) -> Error {
        match self {
            RewriteFailure::Other(reason) => Error::refused(source, reason),
            RewriteFailure::Read(error) => Error::at("read", source, error),
            RewriteFailure::Write(error) => Error::at("write", target, error),
        }
    }
}

/// How large the file is once it is patched.
///
/// # Errors
/// In words, if the edits are not in order, overlap, lie outside of a file of that size, or
/// change its size elsewhere than at its end.
pub(crate) fn size_after(size: ByteUnits, edits: &[Edit]) -> Result<ByteUnits, String> {
    let mut free_from = 0;
    let mut after = size.0;
    for (at, edit) in edits.iter().enumerate() {
        let place = || format!("the edit at byte {}", edit.offset);
        let end = edit.offset.checked_add(edit.old.len() as u64).filter(|end| *end <= size.0);
        let end = end.ok_or_else(|| format!("{} lies outside of the file", place()))?;
        if edit.offset < free_from {
            return Err(format!("{} overlaps the one before, or is out of order", place()));
        }
        free_from = end;
        if edit.old.len() != edit.new.len() {
            if end != size.0 || at + 1 != edits.len() {
                return Err(format!("{} changes the size before the file's end", place()));
            }
            after = edit.offset + edit.new.len() as u64;
        }
    }
    Ok(ByteUnits(after))
}

/// Whether the old bytes of all edits are in the file. What lies close together is read at once.
pub(crate) fn fits(source: &File, edits: &[Edit]) -> io::Result<Result<(), String>> {
    let mut left = edits;
    while let [first, ..] = left {
        let end = |edit: &Edit| edit.offset + edit.old.len() as u64;
        let is_close = |edit: &&Edit| end(edit) - first.offset <= CHUNK as u64;
        let (close, rest) = left.split_at(left.iter().take_while(is_close).count().max(1));
        let mut there = vec![0; close.last().map_or(0, |last| end(last) - first.offset) as usize];
        let read = source.read_exact_at(&mut there, first.offset);
        if let Err(error) = read {
            return match error.kind() {
                io::ErrorKind::UnexpectedEof => Ok(Err(differs(first.offset))),
                _ => Err(error),
            };
        }
        for edit in close {
            let at = (edit.offset - first.offset) as usize;
            if there[at..at + edit.old.len()] != edit.old {
                return Ok(Err(differs(edit.offset)));
            }
        }
        left = rest;
    }
    Ok(Ok(()))
}

/// What was read and what was written.
pub(crate) struct Rewritten {
    pub(crate) before: Version,
    pub(crate) after: Version,
    /// The holes that edits filled.
    pub(crate) filled: Vec<(u64, u64)>,
}

/// Writes the bytes of `source`, of which fstat(2) said `found`, patched, into `target`, an empty file. The edits have
/// passed [`size_after`]. What is a hole in the source, or of `holes`, stays or becomes one as far
/// as it is zero.
pub(crate) fn rewrite(
    source: &File,
    found: &Metadata,
    edits: &[Edit],
    holes: &[(u64, u64)],
    target: &File,
) -> Result<Rewritten, RewriteFailure> {
    let size = ByteUnits(found.len());
    let after = size_after(size, edits).map_err(RewriteFailure::Other)?;
    // A reflink shares the source's holes, and no others.
    let shared = size.0 >= WORTH_A_REFLINK
        && holes.is_empty()
        && rustix::fs::ioctl_ficlone(target, source).is_ok();
    let holes = Holes::of(source, found).map_err(RewriteFailure::Read)?.with(holes);
    let (mut old, mut new) = (Hasher::default(), Hasher::default());
    let mut buffer = vec![0; CHUNK.min(usize::try_from(size.0).unwrap_or(CHUNK))];
    let mut from = 0;
    while from < size.0 {
        let length = (size.0 - from).min(buffer.len() as u64);
        let chunk = &mut buffer[..length as usize];
        source.read_exact_at(chunk, from).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => RewriteFailure::Other("became shorter".into()),
            _ => RewriteFailure::Read(error),
        })?;
        old.update(chunk);
        patch(chunk, from, edits).map_err(RewriteFailure::Other)?;
        let kept = &chunk[..after.0.saturating_sub(from).min(length) as usize];
        new.update(kept);
        if !shared {
            holes.write_around(target, kept, from).map_err(RewriteFailure::Write)?;
        }
        from += length;
    }
    let grown = edits.last().and_then(|edit| edit.new.get(edit.old.len()..)).unwrap_or_default();
    new.update(grown);
    if !grown.is_empty() {
        target.write_all_at(grown, size.0).map_err(RewriteFailure::Write)?;
    }
    if shared {
        write_edits(target, edits).map_err(RewriteFailure::Write)?;
    }
    // Without holes, all of it was written.
    if shared || !holes.is_empty() {
        target.set_len(after.0).map_err(RewriteFailure::Write)?;
    }
    let version = |size, hasher: Hasher| Version { size, digest: Some(hasher.finish()) };
    Ok(Rewritten {
        before: version(size, old),
        after: version(after, new),
        filled: holes.filled_by(edits),
    })
}

/// Copies all of `source` into `target`, an empty file, with its holes: what was written.
pub(crate) fn copy(source: &File, target: &File) -> Result<Version, RewriteFailure> {
    let found = source.metadata().map_err(RewriteFailure::Read)?;
    rewrite(source, &found, &[], &[], target).map(|written| written.after)
}

/// Into a file that shares the source's bytes, only what is new.
fn write_edits(target: &File, edits: &[Edit]) -> io::Result<()> {
    edits.iter().try_for_each(|edit| target.write_all_at(&edit.new, edit.offset))
}

/// Patches the part of a file that begins at `from`, as far as the old bytes reach.
fn patch(chunk: &mut [u8], from: u64, edits: &[Edit]) -> Result<(), String> {
    let begin = edits.partition_point(|edit| edit.offset + (edit.old.len() as u64) <= from);
    for edit in &edits[begin..] {
        let Some((here, there)) = overlap(chunk.len(), from, edit) else { break };
        if chunk[here.clone()] != edit.old[there.clone()] {
            return Err(differs(edit.offset));
        }
        let new = &edit.new[there.start.min(edit.new.len())..there.end.min(edit.new.len())];
        chunk[here.start..here.start + new.len()].copy_from_slice(new);
    }
    Ok(())
}

/// Which bytes of the chunk an edit concerns, and which of its old bytes those are.
fn overlap(length: usize, from: u64, edit: &Edit) -> Option<(Range<usize>, Range<usize>)> {
    let start = edit.offset.max(from);
    let end = (edit.offset + edit.old.len() as u64).min(from + length as u64);
    let range = |base: u64| (start - base) as usize..(end - base) as usize;
    (start < end).then(|| (range(from), range(edit.offset)))
}

fn differs(offset: u64) -> String {
    format!("does not have the bytes that the plan expects at {offset}")
}

/// Reads a file for its digest.
pub(crate) fn version_of(file: &File) -> io::Result<Version> {
    let mut hasher = Hasher::default();
    let size = Seen::from_metadata(&file.metadata()?).size;
    let mut buffer = vec![0; CHUNK.min(usize::try_from(size.0).unwrap_or(CHUNK)).max(1)];
    let mut from = 0;
    // A file that grows as fast as it is read is not followed.
    while from <= size.0 {
        match file.read_at(&mut buffer, from) {
            Ok(0) => break,
            Ok(got) => {
                hasher.update(&buffer[..got]);
                from += got as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Version { size: ByteUnits(from), digest: Some(hasher.finish()) })
}
