//! Bytes at an offset, of a file that may be cut, hostile, or change while it is read.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::ElfError;

/// Something with bytes at offsets. Read, not mapped: a mapped file that is cut under the
/// reader kills it with SIGBUS, and of a large library only a few kilobytes matter.
pub(crate) trait ByteSource {
    /// As many of the bytes from `offset` as there are, at most `buffer`'s length.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// How many bytes there are.
    fn length(&self) -> u64;

    /// Says that these bytes will be asked for soon.
    fn ahead(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Exactly `length` bytes from `offset`, where that is not more than `limit`.
    fn exactly(&self, offset: u64, length: u64, limit: usize) -> Result<Vec<u8>, ElfError> {
        let length = usize::try_from(length).ok().filter(|length| *length <= limit);
        let bytes = self.at_most(offset, length.ok_or(ElfError::Excessive)?)?;
        if Some(bytes.len()) == length { Ok(bytes) } else { Err(ElfError::Truncated) }
    }

    /// The bytes from `offset`, `length` of them or as many as there are.
    fn at_most(&self, offset: u64, length: usize) -> Result<Vec<u8>, ElfError> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            let at = offset.checked_add(filled as u64).ok_or(ElfError::Truncated)?;
            match self.read_at(&mut bytes[filled..], at) {
                Ok(0) => break,
                Ok(got) => filled += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // An offset that no file can have: the kernel takes signed ones only.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
                Err(error) => return Err(error.into()),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

impl ByteSource for &[u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let length = buffer.len().min(self.len() - from);
        buffer[..length].copy_from_slice(&self[from..from + length]);
        Ok(length)
    }

    fn length(&self) -> u64 {
        self.len() as u64
    }
}

/// The bytes of a file from `offset` on, `length` of them or as many as there are.
pub(crate) fn read(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Opens a regular file, and what fstat(2) says of it. A FIFO does not block it, and a terminal does not become ours.
pub(crate) fn open(path: &Path) -> Result<(File, Metadata), ElfError> {
    open_with(path, 0)
}

/// The same of a file that may be changed: to have looked at it leaves its access time, which
/// undoing gives back, where that is allowed (to its owner).
pub(crate) fn open_unnoticed(path: &Path) -> Result<(File, Metadata), ElfError> {
    open_with(path, libc::O_NOATIME).or_else(|_| open(path))
}

fn open_with(path: &Path, flags: libc::c_int) -> Result<(File, Metadata), ElfError> {
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let seen = file.metadata()?;
    if seen.is_file() { Ok((file, seen)) } else { Err(ElfError::NotAFile) }
}
