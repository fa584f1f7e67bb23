//! Having parts of files read, by few threads, up to a bound.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{Advice, OFlags, fadvise};

use crate::{FilePart, ReadAheadFile, ReadAheadList};

/// What one thread asks for at a time: as much as one transfer of the shared filesystems takes.
const PIECE: u64 = 1 << 20;

/// How much is read, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAheadLimits {
    /// At most so many bytes: what is read stays in memory.
    pub bytes: u64,
    /// So many requests at a time.
    pub threads: usize,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HadAhead {
    /// Bytes.
    pub bytes: u64,
    /// Files that are others now, or cannot be read: nothing of them was.
    pub changed: usize,
}

/// Has the parts read into the page cache, in their order, until the bound is reached or `goes_on`
/// says that nobody waits for them any more.
///
/// Nothing depends on it: a file that cannot be read is one that the start will meet itself.
pub fn read(
    list: &ReadAheadList,
    limits: &ReadAheadLimits,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> HadAhead {
    let pieces: Vec<FilePart> = list.parts.iter().flat_map(pieces).collect();
    let reader = Reader {
        list,
        opened: list.files.iter().map(|_| OnceLock::new()).collect(),
        left: AtomicU64::new(limits.bytes),
        bytes: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        goes_on,
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut buffer = vec![0; PIECE as usize];
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !reader.piece(piece, &mut buffer) {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..limits.threads {
            // Where no more threads are to be had, fewer do it.
            let _ = std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, work);
        }
        work();
    });
    let changed = reader.opened.iter().filter(|file| matches!(file.get(), Some(None))).count();
    HadAhead { bytes: reader.bytes.into_inner(), changed }
}

struct Reader<'l> {
    list: &'l ReadAheadList,
    /// Each file, once it is asked for; nothing of one that is another now.
    opened: Vec<OnceLock<Option<File>>>,
    /// Bytes that may be read yet.
    left: AtomicU64,
    bytes: AtomicU64,
    is_over: AtomicBool,
    goes_on: &'l (dyn Fn() -> bool + Sync),
}

impl Reader<'_> {
    /// Whether to go on after a piece.
    fn piece(&self, piece: &FilePart, buffer: &mut [u8]) -> bool {
        let Some(file) = self.file(piece.file) else { return true };
        if self.is_over.load(Ordering::Relaxed) || !(self.goes_on)() {
            self.is_over.store(true, Ordering::Relaxed);
            return false;
        }
        let take = |left: u64| left.checked_sub(piece.bytes);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            self.is_over.store(true, Ordering::Relaxed);
            return false;
        }
        // Asked for as a whole, then waited for, so that no more is on its way than there are
        // threads.
        let _ = fadvise(file, piece.offset, NonZeroU64::new(piece.bytes), Advice::WillNeed);
        if let Ok(bytes) = file.read_at(&mut buffer[..piece.bytes as usize], piece.offset) {
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        true
    }

    fn file(&self, number: usize) -> Option<&File> {
        let known = self.list.files.get(number)?;
        self.opened[number].get_or_init(|| open(known)).as_ref()
    }
}

/// The file, if it is still the same.
fn open(known: &ReadAheadFile) -> Option<File> {
    // What has become a FIFO would not be opened before somebody writes to it.
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(&known.path).ok()?;
    known.is(&file.metadata().ok()?).then_some(file)
}

fn pieces(part: &FilePart) -> impl Iterator<Item = FilePart> + use<> {
    let part = *part;
    (0..part.bytes.div_ceil(PIECE)).map(move |number| FilePart {
        offset: part.offset.saturating_add(number * PIECE),
        bytes: PIECE.min(part.bytes - number * PIECE),
        ..part
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn list(content: &[u8], parts: &[(u64, u64)]) -> (tempfile::NamedTempFile, ReadAheadList) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let files = vec![ReadAheadFile::of(file.path()).unwrap()];
        let part =
            |(offset, bytes): &(u64, u64)| FilePart { file: 0, offset: *offset, bytes: *bytes };
        (file, ReadAheadList { files, parts: parts.iter().map(part).collect() })
    }

    const ENOUGH: ReadAheadLimits = ReadAheadLimits { bytes: u64::MAX, threads: 3 };

    #[test]
    fn all_parts_are_read_and_nothing_beyond_the_end() {
        let (_file, list) = list(&[7; 5 << 20], &[(0, 10), (1 << 20, (4 << 20) - 1), (9 << 20, 5)]);
        let had = read(&list, &ENOUGH, &|| true);
        assert_eq!(had, HadAhead { bytes: 10 + (4 << 20) - 1, changed: 0 });
    }

    #[test]
    fn it_stops_at_the_bound_and_where_nobody_waits() {
        let (_file, list) = list(&[7; 5 << 20], &[(0, 5 << 20)]);
        let bounded = ReadAheadLimits { bytes: (2 << 20) + 5, threads: 2 };
        assert_eq!(read(&list, &bounded, &|| true).bytes, 2 << 20);
        assert_eq!(read(&list, &ENOUGH, &|| false).bytes, 0);
    }

    #[test]
    fn a_file_that_is_another_now_is_left_alone() {
        let (mut file, list) = list(&[7; 100], &[(0, 100)]);
        file.write_all(b"more").unwrap();
        assert_eq!(read(&list, &ENOUGH, &|| true), HadAhead { bytes: 0, changed: 1 });
    }
}
