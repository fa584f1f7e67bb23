//! A file's bytes without its zeros: holes are skipped unread, blocks of zeros after reading.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Bytes read at once. Zeros are skipped in whole blocks of this size, which are counted from
/// the part's beginning: what is skipped depends on the content, and not on where a filesystem
/// has holes.
const BLOCK: u64 = 64 << 10;

/// Some bytes of a part, not all of them zero.
pub struct Chunk<'a> {
    /// Where they are, in bytes from the part's beginning.
    pub at: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The blocks of a part of a file that are not all zeros, in order.
pub struct Chunks<'a> {
    file: &'a File,
    start: u64,
    size: u64,
    at: u64,
    /// All before this is known to be no hole.
    data_until: u64,
    block: Vec<u8>,
}

impl<'a> Chunks<'a> {
    /// Those of `size` bytes from `start` on.
    pub fn of(file: &'a File, start: u64, size: u64) -> Chunks<'a> {
        Chunks { file, start, size, at: 0, data_until: 0, block: Vec::new() }
    }

    /// The next one.
    ///
    /// # Errors
    /// Those of reading; [`io::ErrorKind::UnexpectedEof`] where the file ends before the part.
    pub fn next(&mut self) -> io::Result<Option<Chunk<'_>>> {
        loop {
            self.skip_hole()?;
            if self.at >= self.size {
                return Ok(None);
            }
            let at = self.at;
            self.block.resize(BLOCK.min(self.size - at) as usize, 0);
            self.file.read_exact_at(&mut self.block, self.start + at)?;
            self.at += BLOCK;
            if self.block.iter().any(|byte| *byte != 0) {
                return Ok(Some(Chunk { at, bytes: &self.block }));
            }
        }
    }

    /// Goes on to the next block that has data in it.
    fn skip_hole(&mut self) -> io::Result<()> {
        if self.at < self.data_until || self.at >= self.size {
            return Ok(());
        }
        let data = match seek(self.file, SeekFrom::Data(self.start + self.at)) {
            Ok(data) => data,
            // Nothing but a hole up to the end, if the end is where it was.
            Err(Errno::NXIO) if self.file.metadata()?.len() >= self.start + self.size => {
                self.at = self.size;
                return Ok(());
            }
            Err(Errno::NXIO) => return Err(io::ErrorKind::UnexpectedEof.into()),
            // A filesystem that knows of no holes.
            Err(Errno::INVAL) => {
                self.data_until = u64::MAX;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let hole = seek(self.file, SeekFrom::Hole(data))?;
        self.at = data.saturating_sub(self.start) / BLOCK * BLOCK;
        self.data_until = hole.saturating_sub(self.start);
        Ok(())
    }
}
