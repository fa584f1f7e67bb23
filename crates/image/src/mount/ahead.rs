//! Reading an image in large pieces.
//!
//! A start reads an image one small block after the other; on a shared filesystem each would be a
//! question, and a wait. So the first block that is asked for of a window has the kernel fetch
//! what will be asked for of it, in requests as large as the filesystem takes: what the trace used,
//! if its command is run, or another one goes the same way; what nobody traced, if most of the
//! window before was asked for; and all, where it is not known what was used. What is fetched stays
//! in the page cache, for the next holder on this node as well: that is why nothing is kept here,
//! and nothing is read around the cache (O_DIRECT).

use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::{Advice, fadvise};
use rustix::mm::{self, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Bytes that are fetched together: the size of a huge page where pages are of 4 KiB, for the reason
/// that [`populate`] tells.
const WINDOW: u64 = 2 << 20;
/// What is remembered of a window is remembered of so many pieces of it, a bit for each.
const PIECE: u64 = WINDOW / u32::BITS as u64;
/// All pieces.
const ALL: u32 = u32::MAX;
/// Bytes that one piece of advice can have fetched: what Linux reads ahead by itself
/// (`VM_READAHEAD_PAGES`); of longer ranges it takes the front (mm/readahead.c,
/// `force_page_cache_ra`).
const ADVISED: u64 = 128 << 10;
/// As many windows are remembered at most, 2 TiB: what lies behind them is read as the kernel reads
/// it.
const MOST: u64 = 1 << 20;
/// Of a window, in eighths: with so much used, all of it is fetched at once, in fewer requests.
const MUCH: u32 = 3;
/// In eighths, too: who asked for so much of what comes before will ask for what follows.
const NEARLY_ALL: u32 = 7;
/// What comes before: so many used pieces.
const BEFORE: u32 = 96;
/// What ends before is the superblock.
const HEAD: u64 = 4096;

/// Which pieces of a file have been fetched, and which were asked for, by window.
#[derive(Debug)]
pub(super) struct Ahead {
    fetched: Vec<AtomicU32>,
    asked: Vec<AtomicU32>,
    size: u64,
    parts: OnceLock<ImageParts>,
    /// Whether all will be asked for that the traced command used.
    expected: AtomicBool,
}

/// What of a file is read how.
#[derive(Debug)]
pub(super) struct ImageParts {
    /// Where the image begins.
    start: u64,
    /// Where its tables begin, which everybody reads.
    tables: u64,
    /// Which pieces the traced command used, by window; none: nobody knows.
    used: Vec<u32>,
}

impl ImageParts {
    /// Of an image that begins at `start`; where in it its tables begin, and what was used.
    pub fn of(start: u64, tables: u64, used: &[(u64, u64)]) -> ImageParts {
        let tables = start.saturating_add(tables);
        let mut windows = Vec::new();
        for (from, to) in used {
            let (from, to) = (start.saturating_add(*from), start.saturating_add(*to).min(tables));
            for window in from / WINDOW..to.div_ceil(WINDOW).min(MOST) {
                let at = window as usize;
                windows.resize(windows.len().max(at + 1), 0);
                windows[at] |= pieces(window, from, to);
            }
        }
        ImageParts { start, tables, used: windows }
    }
}

impl Ahead {
    /// For a file of so many bytes.
    pub fn of(size: u64) -> Ahead {
        let windows = || (0..size.div_ceil(WINDOW).min(MOST)).map(|_| AtomicU32::new(0)).collect();
        Ahead {
            fetched: windows(),
            asked: windows(),
            size,
            parts: OnceLock::new(),
            expected: AtomicBool::new(false),
        }
    }

    /// Says what lies where: until then only what lies behind is fetched.
    pub fn know(&self, file: &File, parts: ImageParts) {
        if parts.used.is_empty() {
            read_twice_as_far(file);
        }
        let _ = self.parts.set(parts);
    }

    /// What is run is what was traced.
    pub fn expect_all(&self) {
        self.expected.store(true, Ordering::Relaxed);
    }

    /// Bytes from an offset on will be read now: has fetched with them, once each, what seems to be
    /// asked for soon. What the kernel drops later it reads as it always does.
    pub fn read(&self, file: &File, offset: u64, length: u64) {
        let end = offset.saturating_add(length).min(self.size);
        if end <= self.parts.get().map_or(0, |parts| parts.start) + HEAD {
            return;
        }
        for window in offset / WINDOW..end.div_ceil(WINDOW).min(MOST) {
            self.asked[window as usize].fetch_or(pieces(window, offset, end), Ordering::Relaxed);
            self.fetch(file, window, self.wanted(window, offset));
        }
    }

    /// All of these bytes will be read, as far as it is known what is used. The kernel, too, reads
    /// twice as far ahead as it would, even where it mounts the file itself.
    pub fn read_all(&self, file: &File, offset: u64, length: u64) {
        read_twice_as_far(file);
        let used = self.parts.get().map(|parts| &parts.used[..]).filter(|used| !used.is_empty());
        let end = offset.saturating_add(length).min(self.size);
        for window in offset / WINDOW..end.div_ceil(WINDOW).min(MOST) {
            let used = used.map_or(ALL, |used| used.get(window as usize).copied().unwrap_or(0));
            self.fetch(file, window, used);
        }
    }

    /// The pieces of a window that whoever asks for this offset in it will ask for.
    fn wanted(&self, window: u64, offset: u64) -> u32 {
        let Some(parts) = self.parts.get() else { return pieces(window, offset, self.size) };
        if offset >= parts.tables {
            return pieces(window, parts.tables, self.size);
        }
        let asked = |window: usize| self.asked[window].load(Ordering::Relaxed);
        let at = window as usize;
        match parts.used.get(at) {
            _ if parts.used.is_empty() => ALL,
            // What the trace did not use is read by who reads all.
            None => match is_share(NEARLY_ALL, asked(at - 1), ALL) {
                true => ALL,
                false => 0,
            },
            Some(used) => {
                match self.expected.load(Ordering::Relaxed) || self.is_followed(&parts.used, at) {
                    true => *used,
                    false => 0,
                }
            }
        }
    }

    /// Whether most that was used before a window has been asked for.
    fn is_followed(&self, used: &[u32], window: usize) -> bool {
        let (mut have, mut of) = (0_u64, 0_u64);
        for at in (0..window).rev() {
            have += u64::from((self.asked[at].load(Ordering::Relaxed) & used[at]).count_ones());
            of += u64::from(used[at].count_ones());
            if of >= u64::from(BEFORE) {
                break;
            }
        }
        have * 8 >= of * u64::from(NEARLY_ALL)
    }

    /// Has pieces of a window fetched, if they have not been.
    fn fetch(&self, file: &File, window: u64, wanted: u32) {
        let Some(fetched) = self.fetched.get(window as usize).filter(|_| wanted != 0) else {
            return;
        };
        let new = wanted & !fetched.fetch_or(wanted, Ordering::Relaxed);
        let start = window * WINDOW;
        let length = WINDOW.min(self.size.saturating_sub(start));
        let there = pieces(window, start, start + length);
        if is_share(MUCH, new, there) && populate(file, start, length).is_ok() {
            return;
        }
        let mut left = new & there;
        while left != 0 {
            let first = left.trailing_zeros();
            let run = (left >> first).trailing_ones();
            let from = start + u64::from(first) * PIECE;
            advise(file, from, (from + u64::from(run) * PIECE).min(self.size));
            left &= u32::MAX.checked_shl(first + run).unwrap_or(0);
        }
    }
}

/// The pieces of a window that a part of the file is in.
fn pieces(window: u64, from: u64, to: u64) -> u32 {
    let start = window * WINDOW;
    let begin = from.saturating_sub(start).min(WINDOW) / PIECE;
    let end = to.saturating_sub(start).min(WINDOW).div_ceil(PIECE);
    let below = |piece: u64| 1_u32.checked_shl(piece as u32).map_or(ALL, |bit| bit - 1);
    below(end) & !below(begin)
}

/// Whether at least so many eighths of these pieces are there.
fn is_share(eighths: u32, have: u32, of: u32) -> bool {
    (have & of).count_ones() * 8 >= of.count_ones() * eighths
}

/// Has the kernel read twice as far ahead in a file as it would.
fn read_twice_as_far(file: &File) {
    // Advice that is not taken costs time only, here and below.
    let _ = fadvise(file, 0, None, Advice::Sequential);
}

/// Has bytes read into the page cache, and does not wait.
fn advise(file: &File, from: u64, to: u64) {
    for at in (from..to).step_by(ADVISED as usize) {
        let _ = fadvise(file, at, NonZeroU64::new(ADVISED.min(to - at)), Advice::WillNeed);
    }
}

/// Has a window read into the page cache, and waits for it. Of a mapping that is to have huge
/// pages the kernel reads a huge page's worth at once, however little the filesystem is set to
/// read ahead (mm/filemap.c, `do_sync_mmap_readahead`); it need not have huge pages for that.
///
/// # Errors
/// Linux before 5.14 (`MADV_POPULATE_READ`); a kernel without huge pages, or whose huge pages are
/// larger than a window; what reading says.
fn populate(file: &File, at: u64, length: u64) -> rustix::io::Result<()> {
    if huge_page_size(rustix::param::page_size() as u64) != WINDOW {
        return Err(rustix::io::Errno::OPNOTSUPP);
    }
    let length = length as usize;
    let (nowhere, read, private) = (ptr::null_mut(), ProtFlags::READ, MapFlags::PRIVATE);
    // SAFETY: a new mapping, at a place of the kernel's choice; nobody reads or writes through it.
    let mapped: *mut c_void = unsafe { mmap(nowhere, length, read, private, file.as_fd(), at) }?;
    let advise = |advice| {
        // SAFETY: this mapping only, and advice that neither frees nor changes what is in it.
        unsafe { madvise(mapped, length, advice) }
    };
    let done = advise(mm::Advice::LinuxHugepage)
        // One huge page's worth, not two.
        .and_then(|()| advise(mm::Advice::Random))
        .and_then(|()| advise(mm::Advice::LinuxPopulateRead));
    // SAFETY: as it was mapped above, and nothing refers to it.
    unsafe { munmap(mapped, length) }?;
    done
}

/// What a huge page holds: as much as a page of entries of eight bytes points to, which on Arm is
/// 32 MiB of pages of 16 KiB, and 512 MiB of pages of 64 KiB.
fn huge_page_size(page: u64) -> u64 {
    page * (page / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    const BLOCK: u64 = 128 << 10;

    /// How many bytes of a file have been fetched, or were to be.
    fn fetched(ahead: &Ahead) -> u64 {
        let of = |pieces: &AtomicU32| u64::from(pieces.load(Ordering::Relaxed).count_ones());
        ahead.fetched.iter().map(of).sum::<u64>() * PIECE
    }

    fn of_parts(file: &File, windows: u64, used: &[(u64, u64)]) -> Ahead {
        let ahead = Ahead::of(windows * WINDOW);
        ahead.know(file, ImageParts::of(0, (windows - 1) * WINDOW, used));
        ahead
    }

    #[test]
    fn a_window_is_a_huge_page_only_where_pages_are_of_4_kib() {
        let sizes = [4, 16, 64].map(|kib| huge_page_size(kib << 10));
        assert_eq!(sizes, [WINDOW, 32 << 20, 512 << 20]);
    }

    #[test]
    fn the_pieces_of_a_window_are_those_that_a_part_is_in() {
        assert_eq!(pieces(0, 0, WINDOW), ALL);
        assert_eq!(pieces(1, 0, u64::MAX), ALL);
        assert_eq!(pieces(1, 0, WINDOW), 0);
        assert_eq!(pieces(0, WINDOW, WINDOW * 2), 0);
        assert_eq!(pieces(1, WINDOW + PIECE, WINDOW + PIECE + 1), 2);
        assert_eq!(pieces(0, WINDOW - 1, WINDOW + 1), 1 << 31);
    }

    #[test]
    fn of_an_image_without_a_trace_a_window_is_fetched_once_and_none_beyond_the_end() {
        let file = file(WINDOW * 70 + 1);
        let ahead = Ahead::of(WINDOW * 70 + 1);
        ahead.read(&file, 0, HEAD);
        assert_eq!(fetched(&ahead), 0);
        ahead.know(&file, ImageParts::of(0, WINDOW * 70, &[]));
        ahead.read(&file, WINDOW * 5 - 1, 2);
        ahead.read(&file, WINDOW * 5 - 1, 2);
        assert_eq!(fetched(&ahead), WINDOW * 2);
        ahead.read(&file, WINDOW * 70, u64::MAX);
        ahead.read(&file, u64::MAX, u64::MAX);
        assert_eq!(fetched(&ahead), WINDOW * 2 + PIECE);
        assert_eq!(Ahead::of(u64::MAX).fetched.len() as u64, MOST);
    }

    #[test]
    fn the_traced_command_has_fetched_what_it_used_and_another_what_it_follows() {
        let file = file(WINDOW * 40);
        // Of each of the first twenty windows all but the last fourth, of the eleventh nothing.
        let used: Vec<_> = (0..20)
            .filter(|window| *window != 10)
            .map(|window| (window * WINDOW, (window + 1) * WINDOW - WINDOW / 4))
            .collect();
        let traced = of_parts(&file, 40, &used);
        traced.expect_all();
        traced.read(&file, WINDOW * 7, BLOCK);
        traced.read(&file, WINDOW * 10, BLOCK);
        assert_eq!(fetched(&traced), WINDOW * 3 / 4);
        // Here and there.
        let other = of_parts(&file, 40, &used);
        (1..39).for_each(|window| other.read(&file, WINDOW * window + BLOCK, BLOCK));
        assert_eq!(fetched(&other), 0);
        // In the order of the trace, from the fourth window on: not before it is seen to be that.
        let later = of_parts(&file, 40, &used);
        for at in (WINDOW * 3..WINDOW * 10).step_by(BLOCK as usize) {
            later.read(&file, at, BLOCK);
        }
        assert_eq!(fetched(&later), WINDOW * 3 / 4 * 3);
        // All of the rest: what follows on a whole window.
        for at in (WINDOW * 30..WINDOW * 34).step_by(BLOCK as usize) {
            later.read(&file, at, BLOCK);
        }
        assert_eq!(fetched(&later), WINDOW * 3 / 4 * 3 + WINDOW * 3);
        // The tables are everybody's.
        later.read(&file, WINDOW * 39, HEAD);
        assert_eq!(fetched(&later), WINDOW * 3 / 4 * 3 + WINDOW * 4);
    }

    #[test]
    fn what_an_image_says_was_used_is_never_beyond_its_tables() {
        let parts =
            ImageParts::of(WINDOW, WINDOW * 3, &[(0, u64::MAX), (u64::MAX, u64::MAX), (9, 1)]);
        assert_eq!(parts.used, [0, ALL, ALL, ALL]);
        assert!(ImageParts::of(u64::MAX, u64::MAX, &[(0, u64::MAX)]).used.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_no_signal() {
        populate(&file(WINDOW), 0, WINDOW).unwrap();
        // Cut since it was looked at.
        assert!(populate(&file(WINDOW), WINDOW, WINDOW).is_err());
        advise(&file(1), WINDOW, WINDOW * 2);
    }
}
