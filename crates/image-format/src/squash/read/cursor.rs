//! Reads metadata: from a place on, across blocks.

use std::sync::Arc;

use super::cache::{BlockKey, UnpackedBlock};
use super::{SquashImage, SquashReadError};
use crate::squash::decompress::unpack;
use crate::squash::format::{METADATA, METADATA_STORED};

/// A place in metadata that moves on as it is read from.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    image: &'a SquashImage,
    block: Arc<UnpackedBlock>,
    offset: usize,
    /// Where the table ends at the latest.
    end: u64,
}

impl<'a> Cursor<'a> {
    /// Begins in the block at a position, at an offset in what that holds.
    pub(crate) fn new(
        image: &'a SquashImage,
        position: u64,
        offset: usize,
        end: u64,
    ) -> Result<Cursor<'a>, SquashReadError> {
        let block = image.metadata(position, end)?;
        if offset > block.bytes.len() {
            return SquashReadError::damaged("an offset beyond its block", position);
        }
        Ok(Cursor { image, block, offset, end })
    }

    /// Fills a buffer.
    pub(crate) fn read(&mut self, mut buffer: &mut [u8]) -> Result<(), SquashReadError> {
        while !buffer.is_empty() {
            let rest = &self.block.bytes[self.offset..];
            if rest.is_empty() {
                self.block = self.image.metadata(self.block.next, self.end)?;
                self.offset = 0;
                continue;
            }
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            self.offset += length;
            buffer = &mut buffer[length..];
        }
        Ok(())
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], SquashReadError> {
        let mut bytes = [0; N];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, SquashReadError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, SquashReadError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, SquashReadError> {
        self.array().map(u64::from_le_bytes)
    }

    /// So many bytes. The caller bounds the length.
    pub(crate) fn bytes(&mut self, length: usize) -> Result<Vec<u8>, SquashReadError> {
        let mut bytes = vec![0; length];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Where the block is that it is in, for messages.
    pub(crate) fn near(&self) -> u64 {
        self.block.next
    }
}

impl SquashImage {
    /// The metadata block at a position, before `end`.
    pub(crate) fn metadata(
        &self,
        position: u64,
        end: u64,
    ) -> Result<Arc<UnpackedBlock>, SquashReadError> {
        self.cache.get(BlockKey::Metadata(position), METADATA, || {
            let available = end.saturating_sub(position).min(METADATA as u64 + 2) as usize;
            let mut buffer = [0; METADATA + 2];
            let buffer = &mut buffer[..available];
            let Some(_) = available.checked_sub(3) else {
                return SquashReadError::damaged("a table that ends too early", position);
            };
            self.read_exact(position, buffer)?;
            let header = u16::from_le_bytes([buffer[0], buffer[1]]);
            // 0x8000 alone stood for a length of 32 KiB that no block can have.
            let length = usize::from(header & !METADATA_STORED);
            let Some(packed) = buffer.get(2..2 + length).filter(|packed| !packed.is_empty()) else {
                return SquashReadError::damaged(
                    "a block of metadata longer than its table",
                    position,
                );
            };
            let bytes = match header & METADATA_STORED {
                0 => unpack(self.compression, packed, METADATA).unwrap_or_default(),
                _ => packed.to_vec(),
            };
            if bytes.is_empty() {
                return SquashReadError::damaged("a block of metadata that is no block", position);
            }
            Ok(UnpackedBlock { bytes, next: position + 2 + length as u64 })
        })
    }
}

/// A table with an index: fixed-size entries in metadata blocks, whose positions the index holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedTable {
    index: u64,
    entry: u64,
    count: u64,
}

impl IndexedTable {
    /// A table of `count` entries of `entry` bytes each, whose index is at a position.
    pub(crate) fn new(
        image: &SquashImage,
        index: u64,
        entry: u64,
        count: u64,
    ) -> Result<IndexedTable, SquashReadError> {
        let blocks = (entry * count).div_ceil(METADATA as u64);
        match index.checked_add(blocks * 8) {
            Some(end) if end <= image.superblock.bytes_used => {
                Ok(IndexedTable { index, entry, count })
            }
            _ => SquashReadError::damaged("a table beyond the image's end", index),
        }
    }

    /// A cursor on an entry.
    pub(crate) fn entry<'a>(
        &self,
        image: &'a SquashImage,
        number: u64,
    ) -> Result<Cursor<'a>, SquashReadError> {
        if number >= self.count {
            return SquashReadError::damaged("a number beyond its table", self.index);
        }
        let at = number * self.entry;
        let (block, offset) = (at / METADATA as u64, at % METADATA as u64);
        let mut position = [0; 8];
        image.read_exact(self.index + block * 8, &mut position)?;
        Cursor::new(image, u64::from_le_bytes(position), offset as usize, self.index)
    }
}
