//! The reader's side of a `BPF_MAP_TYPE_RINGBUF` (Documentation/bpf/ringbuf.rst).
//!
//! A page with the reader's position, a page with the writers', and the data, mapped twice in a
//! row so that no record is cut in two. Positions only grow. A record is a header of 8 bytes,
//! whose first 4 are its length and two flags, and its data, rounded up to 8 bytes.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mapping::SharedMapping;
use crate::program::TapRecord;

/// `BPF_RINGBUF_BUSY_BIT`: reserved, and not yet submitted.
const BUSY: u32 = 1 << 31;
/// `BPF_RINGBUF_DISCARD_BIT`: submitted as nothing.
const DISCARDED: u32 = 1 << 30;
/// `BPF_RINGBUF_HDR_SZ`.
const HEADER_BYTES: u64 = 8;

/// How often a record that is being written is looked at before it is left for the next time.
/// A program writes one in far less than a microsecond and cannot be preempted; but a virtual
/// machine's processor can, for longer.
const PATIENCE: u32 = 100_000;

/// How much is read before its room is given back to the writers.
const BATCH_BYTES: u64 = 16 << 10;

/// The mapped ring.
pub(crate) struct Ring {
    reader: SharedMapping,
    /// The writers' position, and the data from the second page on.
    writers: SharedMapping,
    page: usize,
    bytes: usize,
}

impl Ring {
    /// Maps the ring of `bytes` bytes, a power of two.
    pub(crate) fn new(map: BorrowedFd, bytes: usize) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let reader = SharedMapping::new(map, 0, page, true)?;
        let writers = SharedMapping::new(map, page, page + 2 * bytes, false)?;
        Ok(Ring { reader, writers, page, bytes })
    }

    /// Hands over each record that is complete, and the bytes after it, up to the first that is
    /// not.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(&TapRecord, &[u8])) {
        let mut position = self.read_up_to().load(Ordering::Relaxed);
        let mut given_back = position;
        while position < self.written_up_to().load(Ordering::Acquire) {
            let Some(header) = self.header(position) else { break };
            let length = header & !DISCARDED;
            let more = (length as usize).checked_sub(size_of::<TapRecord>());
            if let (0, Some(more)) = (header & DISCARDED, more) {
                each(&self.record(position), self.after_record(position, more));
            }
            position += (HEADER_BYTES + u64::from(length)).next_multiple_of(8);
            if position - given_back >= BATCH_BYTES {
                self.read_up_to().store(position, Ordering::Release);
                given_back = position;
            }
        }
        self.read_up_to().store(position, Ordering::Release);
    }

    fn read_up_to(&self) -> &AtomicU64 {
        self.reader.long(0)
    }

    fn written_up_to(&self) -> &AtomicU64 {
        self.writers.long(0)
    }

    /// The first half of the header of the record at `position`; None while it is being written.
    fn header(&self, position: u64) -> Option<u32> {
        let header = self.writers.word(self.at(position));
        for _ in 0..PATIENCE {
            let header = header.load(Ordering::Acquire);
            if header & BUSY == 0 {
                return Some(header);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// What is written after the record at `position`.
    fn after_record(&self, position: u64, bytes: usize) -> &[u8] {
        self.writers.bytes(self.at(position + HEADER_BYTES) + size_of::<TapRecord>(), bytes)
    }

    /// The record at `position`, which is complete and of a record's length.
    fn record(&self, position: u64) -> TapRecord {
        self.writers.record(self.at(position + HEADER_BYTES))
    }

    /// Where a position is: after the first page, in one ring's length, with as much after it.
    fn at(&self, position: u64) -> usize {
        self.page + (position as usize & (self.bytes - 1))
    }
}
