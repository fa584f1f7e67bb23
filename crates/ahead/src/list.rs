//! Which parts of which files, in which order.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recording::query::data::{self, DataRun};
use recording::{PathId, Recording};

/// Parts of one file with less between them are read as one: twice what Linux reads ahead by itself
/// (128 KiB, `VM_READAHEAD_PAGES`) costs less than another request.
const GAP: u64 = 256 << 10;

/// What a start reads, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadAheadList {
    /// The files.
    pub files: Vec<ReadAheadFile>,
    /// The parts of them, in the order in which the start used them first. None overlap.
    pub parts: Vec<FilePart>,
}

/// A file, as it was when the list was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAheadFile {
    /// Where it is, absolute.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// When its content was changed last, in nanoseconds since 1970.
    pub mtime_ns: i64,
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The file's number in [`ReadAheadList::files`].
    pub file: usize,
    /// Where it begins: bytes from the file's beginning.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl ReadAheadFile {
    /// The file at a path now, through symbolic links.
    ///
    /// # Errors
    /// If it is not there or is no regular file.
    pub fn of(path: &Path) -> io::Result<ReadAheadFile> {
        let found = path.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("is no regular file"));
        }
        Ok(ReadAheadFile { path: path.to_owned(), bytes: found.len(), mtime_ns: mtime_ns(&found) })
    }

    /// Whether what was found there is still the same file, by size and time.
    pub fn is(&self, found: &Metadata) -> bool {
        found.is_file() && found.len() == self.bytes && is_same_time(mtime_ns(found), self.mtime_ns)
    }
}

/// Whether two times are of the same change: images and some filesystems keep whole seconds.
fn is_same_time(one: i64, other: i64) -> bool {
    const SECOND: i64 = 1_000_000_000;
    let is_whole = |time: i64| time.rem_euclid(SECOND) == 0;
    one == other
        || (is_whole(one) || is_whole(other)) && one.div_euclid(SECOND) == other.div_euclid(SECOND)
}

fn mtime_ns(found: &Metadata) -> i64 {
    found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec())
}

impl ReadAheadList {
    /// What a recorded start used, of the files that are there now and that `is_wanted`.
    ///
    /// What it wrote itself is not there before it: files that are younger than the recording are
    /// left out, as are those that only the node's own memory has (proc, sysfs, tmpfs).
    pub fn of(recording: &Recording, is_wanted: impl Fn(&Path) -> bool) -> ReadAheadList {
        let header = &recording.header;
        let started = (header.started_unix as i64).saturating_mul(1_000_000_000);
        let started_ns = started.saturating_add(header.started_nanos.into());
        let mut list = ReadAheadList::default();
        let mut known: HashMap<PathId, Option<usize>> = HashMap::new();
        // A file may have several names: /lib is a symbolic link.
        let mut by_inode: HashMap<(u64, u64), usize> = HashMap::new();
        for DataRun { path, range, .. } in data::runs(recording) {
            let number = known.entry(path).or_insert_with(|| {
                let name = Path::new(OsStr::from_bytes(recording.path(path)));
                let file = ReadAheadFile::of(name).ok()?;
                let is_input = name.is_absolute() && file.mtime_ns < started_ns;
                (is_input && is_wanted(name)).then_some(())?;
                let found = name.metadata().ok()?;
                Some(*by_inode.entry((found.dev(), found.ino())).or_insert_with(|| {
                    list.files.push(file);
                    list.files.len() - 1
                }))
            });
            let Some(file) = *number else { continue };
            let end = range.end().min(list.files[file].bytes);
            if range.offset < end {
                list.parts.push(FilePart { file, offset: range.offset, bytes: end - range.offset });
            }
        }
        list.parts = joined(&list.parts);
        list
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

/// The same parts, each with those of its file that begin a little after it ends, or end a little
/// before it begins, at the place of the first of them: the start asks for that next or soon.
fn joined(parts: &[FilePart]) -> Vec<FilePart> {
    // By place: the number of the first use, and where the stretch ends.
    let mut by_place: Vec<(usize, FilePart)> = parts.iter().copied().enumerate().collect();
    by_place.sort_by_key(|(_, part)| (part.file, part.offset));
    let mut joined: Vec<(usize, FilePart)> = Vec::new();
    for (number, part) in by_place {
        match joined.last_mut() {
            Some((first, last))
                if last.file == part.file && part.offset <= last.offset + last.bytes + GAP =>
            {
                let end = (last.offset + last.bytes).max(part.offset + part.bytes);
                last.bytes = end - last.offset;
                *first = (*first).min(number);
            }
            _ => joined.push((number, part)),
        }
    }
    joined.sort_by_key(|(first, _)| *first);
    joined.into_iter().map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_lie_close_are_one_at_the_place_of_the_first_use() {
        let part = |file, offset, bytes| FilePart { file, offset, bytes };
        let far = 10 << 20;
        let parts =
            [part(1, far, 4096), part(0, 65_536, 65_536), part(1, 0, 10), part(0, 0, 65_536)];
        assert_eq!(joined(&parts), [part(1, far, 4096), part(0, 0, 131_072), part(1, 0, 10)]);
        let gap = [part(0, 0, 1), part(0, 1 + GAP, 1), part(0, 3 + 2 * GAP, 1)];
        assert_eq!(joined(&gap), [part(0, 0, 2 + GAP), part(0, 3 + 2 * GAP, 1)]);
    }
}
