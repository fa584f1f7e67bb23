//! A file read through few calls: a small one at once, a large one in pieces that are kept.

use std::cell::RefCell;
use std::fs::File;
use std::io;

use crate::source::{self, ByteSource};

/// A file of this size is read by one call; libraries of a store are often smaller.
const WHOLE: u64 = 32 << 10;
/// The least that is read of a larger one.
const PIECE: usize = 4 << 10;
/// The most that is read ahead.
const AHEAD: u64 = 64 << 10;

/// An open file with the pieces read so far.
pub(super) struct FileWindow<'a> {
    file: &'a File,
    size: u64,
    pieces: RefCell<Vec<(u64, Vec<u8>)>>,
}

impl<'a> FileWindow<'a> {
    /// `file`, which has `size` bytes.
    pub(super) fn new(file: &'a File, size: u64) -> FileWindow<'a> {
        FileWindow { file, size, pieces: RefCell::default() }
    }

    fn keep(&self, offset: u64, length: usize) -> io::Result<()> {
        let (offset, length) =
            if self.size <= WHOLE { (0, self.size as usize) } else { (offset, length.max(PIECE)) };
        let bytes = source::read(self.file, offset, length)?;
        self.pieces.borrow_mut().push((offset, bytes));
        Ok(())
    }

    /// What is known from `offset` on.
    fn known(&self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        let pieces = self.pieces.borrow();
        let (start, bytes) = pieces.iter().find(|(start, bytes)| {
            (*start..start + bytes.len() as u64).contains(&offset)
                && (offset - start + buffer.len() as u64 <= bytes.len() as u64
                    || start + bytes.len() as u64 >= self.size)
        })?;
        let known = &bytes[(offset - start) as usize..];
        let length = known.len().min(buffer.len());
        buffer[..length].copy_from_slice(&known[..length]);
        Some(length)
    }
}

impl ByteSource for FileWindow<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.size {
            return Ok(0);
        }
        if let Some(length) = self.known(buffer, offset) {
            return Ok(length);
        }
        self.keep(offset, buffer.len().min((self.size - offset) as usize))?;
        Ok(self.known(buffer, offset).unwrap_or(0))
    }

    fn length(&self) -> u64 {
        self.size
    }

    fn ahead(&self, offset: u64, length: u64) {
        if length <= AHEAD && offset < self.size && self.known(&mut [0; 1], offset).is_none() {
            // What cannot be read now says so when it is asked for.
            let _ = self.keep(offset, length.min(self.size - offset) as usize);
        }
    }
}
