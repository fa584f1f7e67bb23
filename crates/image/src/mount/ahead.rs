//! Reading an image in large pieces.
//!
//! A start reads an image one small block after the other; on a shared filesystem each would be a
//! question, and a wait. So the first block that is asked for of a window has the kernel fetch
//! all of the window, in requests as large as the filesystem takes. What is fetched stays in the
//! page cache, for the next holder on this node as well: that is why nothing is kept here, and
//! nothing is read around the cache (O_DIRECT).

use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Advice, fadvise};
use rustix::mm::{self, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Bytes that are fetched together: the size of a huge page, for the reason that [`populate`]
/// tells.
const WINDOW: u64 = 2 << 20;
/// Bytes that one piece of advice can have fetched: twice what Linux reads ahead by itself
/// (128 KiB, `VM_READAHEAD_PAGES`), thanks to `POSIX_FADV_SEQUENTIAL`; of longer ranges it takes
/// the front (mm/readahead.c, `force_page_cache_ra`).
const ADVISED: u64 = 256 << 10;
/// As many times 64 windows are remembered at most, 8 TiB: what lies behind them is read as the
/// kernel reads it.
const MOST: u64 = 1 << 16;

/// Which windows of a file have been fetched.
#[derive(Debug)]
pub(super) struct Ahead {
    fetched: Vec<AtomicU64>,
    size: u64,
}

impl Ahead {
    /// For a file of so many bytes. The kernel, too, reads twice as far ahead as it would, even
    /// where it mounts the file itself.
    pub fn of(file: &File, size: u64) -> Ahead {
        // Advice that is not taken costs time only, here and below.
        let _ = fadvise(file, 0, None, Advice::Sequential);
        let words = size.div_ceil(WINDOW).div_ceil(64).min(MOST);
        Ahead { fetched: (0..words).map(|_| AtomicU64::new(0)).collect(), size }
    }

    /// Bytes from an offset on will be read now: has their windows fetched, once each. What the
    /// kernel drops later it reads as it always does.
    pub fn read(&self, file: &File, offset: u64, length: u64) {
        let end = offset.saturating_add(length).min(self.size);
        for window in offset / WINDOW..end.div_ceil(WINDOW) {
            if self.is_new(window) {
                let at = window * WINDOW;
                fetch(file, at, WINDOW.min(self.size - at));
            }
        }
    }

    /// Whether a window is asked for the first time, as far as that is remembered.
    fn is_new(&self, window: u64) -> bool {
        let bit = 1 << (window % 64);
        let word = self.fetched.get((window / 64) as usize);
        word.is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }
}

fn fetch(file: &File, at: u64, length: u64) {
    if populate(file, at, length).is_ok() {
        return;
    }
    for at in (at..at + length).step_by(ADVISED as usize) {
        let _ = fadvise(file, at, NonZeroU64::new(ADVISED), Advice::WillNeed);
    }
}

/// Has a window read into the page cache, and waits for it. Of a mapping that is to have huge
/// pages the kernel reads a huge page's worth at once, however little the filesystem is set to
/// read ahead (mm/filemap.c, `do_sync_mmap_readahead`); it need not have huge pages for that.
///
/// # Errors
/// Linux before 5.14 (`MADV_POPULATE_READ`); a kernel without huge pages; what reading says.
fn populate(file: &File, at: u64, length: u64) -> rustix::io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn a_window_is_fetched_once_and_none_beyond_the_end() {
        let file = file(WINDOW * 70 + 1);
        let ahead = Ahead::of(&file, WINDOW * 70 + 1);
        assert!(ahead.is_new(3) && !ahead.is_new(3) && ahead.is_new(67));
        ahead.read(&file, WINDOW * 5 - 1, 2);
        assert!(!ahead.is_new(4) && !ahead.is_new(5) && ahead.is_new(6));
        ahead.read(&file, WINDOW * 70, u64::MAX);
        ahead.read(&file, u64::MAX, u64::MAX);
        assert!(!ahead.is_new(70) && !ahead.is_new(1000));
        assert_eq!(Ahead::of(&file, u64::MAX).fetched.len() as u64, MOST);
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_no_signal() {
        populate(&file(WINDOW), 0, WINDOW).unwrap();
        // Cut since it was looked at.
        assert!(populate(&file(WINDOW), WINDOW, WINDOW).is_err());
        fetch(&file(1), WINDOW, WINDOW);
    }
}
