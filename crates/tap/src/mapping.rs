//! Memory that is shared with the kernel's programs.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::program::{TapControl, TapRecord};

/// A mapped part of a map; not inherited by children: a fork has less to copy.
pub(crate) struct SharedMapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; its bytes are only read, or changed
// atomically.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps `bytes` of what `map` holds from `offset` on, to write to as well if `writable`.
    pub(crate) fn new(
        map: BorrowedFd,
        offset: usize,
        bytes: usize,
        writable: bool,
    ) -> io::Result<SharedMapping> {
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping, at an address of the kernel's choice; where the advice is not
        // taken, forks are slower.
        let start = unsafe {
            let null = std::ptr::null_mut();
            let start = mm::mmap(null, bytes, access, MapFlags::SHARED, map, offset as u64)?;
            let _ = mm::madvise(start, bytes, Advice::LinuxDontFork);
            start
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(SharedMapping { start, bytes })
    }

    /// The number of 8 bytes at an offset, which the kernel too reads and writes atomically.
    pub(crate) fn long(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: checked to be aligned and within the mapping; all values are valid.
        unsafe { self.at::<AtomicU64>(offset).as_ref() }
    }

    /// The number of 4 bytes at an offset.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as for [`SharedMapping::long`].
        unsafe { self.at::<AtomicU32>(offset).as_ref() }
    }

    /// What begins the mapping of the programs' shared element.
    pub(crate) fn shared(&self) -> &TapControl {
        // SAFETY: as above; it is made of numbers that are only ever changed atomically.
        unsafe { self.at::<TapControl>(0).as_ref() }
    }

    /// The record at an offset, which no writer touches any more.
    pub(crate) fn record(&self, offset: usize) -> TapRecord {
        // SAFETY: as above; `TapRecord` is plain numbers.
        unsafe { self.at::<TapRecord>(offset).read() }
    }

    /// So many bytes at an offset, which no writer touches as long as they are borrowed.
    pub(crate) fn bytes(&self, offset: usize, bytes: usize) -> &[u8] {
        assert!(offset + bytes <= self.bytes);
        // SAFETY: within the mapping; that nobody changes them is the caller's.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), bytes) }
    }

    fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(offset.is_multiple_of(align_of::<T>()) && offset + size_of::<T>() <= self.bytes);
        // SAFETY: within the mapping, which begins a page.
        unsafe { self.start.add(offset).cast() }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrowed from it outlives it. Nothing is to be
        // done where it fails.
        let _ = unsafe { mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
