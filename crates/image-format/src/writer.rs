//! Where an image is written to: a file, from a byte on.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::SquashWriteError;

/// Bytes that are written at a time.
const BUFFER: usize = 1 << 20;

/// Writes one image into a file, from a byte on: what is there before it stays as it is.
pub struct ImageWriter<'f> {
    file: &'f File,
    /// How the file is called in errors.
    name: &'f Path,
    /// Where the image begins. Positions are counted from here.
    start: u64,
    /// What is not written yet, and where it goes.
    buffer: Vec<u8>,
    written: u64,
}

impl<'f> ImageWriter<'f> {
    /// Writes to `file`, which is open for writing, from its byte `start` on. Errors call it `name`.
    pub fn new(file: &'f File, name: &'f Path, start: u64) -> ImageWriter<'f> {
        ImageWriter { file, name, start, buffer: Vec::with_capacity(BUFFER * 2), written: 0 }
    }

    /// How the file is called in errors.
    pub fn name(&self) -> &'f Path {
        self.name
    }

    /// Where the next byte goes, counted from where the image begins.
    pub fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Those of writing.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), SquashWriteError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Goes on at a position, without writing what is before it.
    pub(crate) fn leave_out(&mut self, until: u64) -> Result<(), SquashWriteError> {
        self.flush()?;
        self.written = until;
        Ok(())
    }

    /// Takes back all that was put since the position was this.
    pub(crate) fn take_back(&mut self, position: u64) {
        match position.checked_sub(self.written) {
            Some(kept) => self.buffer.truncate(kept as usize),
            None => {
                self.buffer.clear();
                self.written = position;
            }
        }
    }

    /// Fills up with zeros to a multiple of a size.
    ///
    /// # Errors
    /// Those of writing.
    pub fn pad(&mut self, size: u64) -> Result<(), SquashWriteError> {
        let missing = self.position().next_multiple_of(size) - self.position();
        self.put(&vec![0; missing as usize])
    }

    /// Writes over the first bytes of the image.
    pub(crate) fn put_first(&mut self, bytes: &[u8]) -> Result<(), SquashWriteError> {
        self.flush()?;
        self.file.write_all_at(bytes, self.start).map_err(SquashWriteError::at("write", self.name))
    }

    fn flush(&mut self) -> Result<(), SquashWriteError> {
        let write = self.file.write_all_at(&self.buffer, self.start + self.written);
        write.map_err(SquashWriteError::at("write", self.name))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the file behind what was put: all of it is in the file then, though perhaps not on the
    /// disk.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self) -> Result<(), SquashWriteError> {
        self.flush()?;
        // What was taken back may have been longer.
        let cut = self.file.set_len(self.start + self.written);
        cut.map_err(SquashWriteError::at("write", self.name))
    }
}
