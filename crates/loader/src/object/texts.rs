//! Texts of a string table, with a limit to all of them: entries may all name one long text.

use std::ffi::OsString;

use super::ElfError;
use super::parse::name;
use crate::source::ByteSource;

/// One text. An RPATH of 1000 Spack prefixes is some 100 kB.
const TEXT_LIMIT: usize = 1 << 20;
/// All texts of one file.
pub(super) const TEXTS_LIMIT: usize = 4 << 20;
/// Most names are shorter.
const FIRST: usize = 256;

/// Reads texts, and keeps count of them.
pub(super) struct StringTable<'a, S> {
    pub(super) source: &'a S,
    left: usize,
    table: u64,
    size: u64,
}

impl<'a, S: ByteSource> StringTable<'a, S> {
    /// No table yet: only [`StringTable::read`] may be called.
    pub(super) fn new(source: &'a S) -> StringTable<'a, S> {
        StringTable { source, left: TEXTS_LIMIT, table: 0, size: 0 }
    }

    /// The string table has `size` bytes from `table` of the file.
    pub(super) fn set_table(&mut self, table: u64, size: u64) {
        (self.table, self.size) = (table, size);
    }

    /// Says that texts at these offsets of the table will be read.
    pub(super) fn ahead(&self, offsets: impl Iterator<Item = u64> + Clone) {
        if let (Some(least), Some(most)) = (offsets.clone().min(), offsets.max())
            && let Some(from) = self.table.checked_add(least)
        {
            let length = (most - least).saturating_add(FIRST as u64);
            self.source.ahead(from, length.min(self.size.saturating_sub(least)));
        }
    }

    /// The text at `offset` of the table.
    pub(super) fn at(&mut self, offset: u64) -> Result<OsString, ElfError> {
        let left =
            self.size.checked_sub(offset).ok_or(ElfError::Damaged("a text beyond its table"))?;
        self.read(self.table.checked_add(offset).ok_or(ElfError::Truncated)?, left)
    }

    /// The text at `offset` of the file up to its NUL, within `room` bytes.
    pub(super) fn read(&mut self, offset: u64, room: u64) -> Result<OsString, ElfError> {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let mut ask = FIRST;
        loop {
            let mut bytes = self.source.at_most(offset, ask.min(room))?;
            if let Some(end) = memchr::memchr(0, &bytes) {
                self.left = self.left.checked_sub(end + 1).ok_or(ElfError::Excessive)?;
                bytes.truncate(end);
                return Ok(name(bytes));
            }
            if bytes.len() < ask {
                return Err(ElfError::Truncated);
            }
            if ask >= TEXT_LIMIT {
                return Err(ElfError::Excessive);
            }
            ask *= 8;
        }
    }
}
