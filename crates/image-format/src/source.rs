//! Bytes at an offset: a file, or a slice in a test. Readers of images ask for no more than this.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What an image is read from.
pub trait ReadAt {
    /// How many bytes there are.
    ///
    /// # Errors
    /// Those of asking the system.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` with what lies at `offset`.
    ///
    /// # Errors
    /// Those of reading; [`io::ErrorKind::UnexpectedEof`] where the source ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let end = start.and_then(|start| start.checked_add(buffer.len()));
        match start.zip(end).and_then(|(start, end)| self.get(start..end)) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self[..].read_exact_at(buffer, offset)
    }
}

/// A part of a source, as if it were all of it.
#[derive(Clone, Copy, Debug)]
pub struct ReadWindow<'a, S: ?Sized> {
    source: &'a S,
    offset: u64,
    size: u64,
}

impl<'a, S: ReadAt + ?Sized> ReadWindow<'a, S> {
    /// `size` bytes of `source` from `offset` on. None where it does not have them.
    ///
    /// # Errors
    /// Those of asking for the source's size.
    pub fn of(source: &'a S, offset: u64, size: u64) -> io::Result<Option<ReadWindow<'a, S>>> {
        let end = offset.checked_add(size);
        let whole = source.size()?;
        Ok(end.filter(|end| *end <= whole).map(|_| ReadWindow { source, offset, size }))
    }
}

impl<S: ReadAt + ?Sized> ReadAt for ReadWindow<'_, S> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        match end.filter(|end| *end <= self.size) {
            // No overflow: offset is below size, and offset + size of the window below 2^64.
            Some(_) => self.source.read_exact_at(buffer, self.offset + offset),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_where_it_ends_and_not_where_its_source_does() {
        let source: &[u8] = b"0123456789";
        let window = ReadWindow::of(source, 2, 5).unwrap().unwrap();
        let mut two = [0; 2];
        window.read_exact_at(&mut two, 3).unwrap();
        assert_eq!(&two, b"56");
        assert!(window.read_exact_at(&mut two, 4).is_err());
        assert!(window.read_exact_at(&mut two, u64::MAX).is_err());
        assert!(ReadWindow::of(source, 8, 3).unwrap().is_none());
        assert!(ReadWindow::of(source, u64::MAX, 3).unwrap().is_none());
    }
}
