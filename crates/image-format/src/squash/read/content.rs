//! The content of files.

use std::sync::Arc;

use super::cache::{BlockKey, UnpackedBlock};
use super::cursor::Cursor;
use super::node::InodeContent;
use super::{SquashImage, SquashNode, SquashReadError};
use crate::squash::decompress::unpack;
use crate::squash::format::{DATA_STORED, NONE_U32};

/// The most blocks that a file may have here: 512 GiB of 128 KiB each.
pub(crate) const MOST_BLOCKS: u64 = 1 << 22;

/// Where a file's content is: what an open file needs.
#[derive(Clone, Debug)]
pub struct FileContent {
    size: u64,
    /// Position and size, as it is written, of each block.
    blocks: Vec<(u64, u32)>,
    /// The fragment block that the end of the file is in, and where in it.
    fragment: Option<(u32, u32)>,
}

impl FileContent {
    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether a block, by its number, is nothing but zeros that are not stored.
    pub fn is_hole(&self, block: usize) -> bool {
        self.blocks.get(block).is_some_and(|(_, size)| *size == 0)
    }

    /// How many of its bytes are not in such blocks.
    pub fn stored(&self, block_size: u32) -> u64 {
        let holes = self.blocks.iter().filter(|(_, size)| *size == 0).count() as u64;
        self.size.saturating_sub(holes * u64::from(block_size))
    }
}

impl SquashImage {
    /// Where a file's content is, to be read by [`SquashImage::read_at`].
    ///
    /// # Errors
    /// Where it is no regular file, or the image is damaged.
    pub fn open(&self, file: SquashNode) -> Result<FileContent, SquashReadError> {
        let (inode, mut sizes) = self.inode(file)?;
        let InodeContent::File { start, fragment, offset } = inode.place else {
            return Err(SquashReadError::IsNo("regular file"));
        };
        let size = inode.attributes.size;
        let block_size = u64::from(self.superblock.block_size);
        let fragment = (fragment != NONE_U32).then_some((fragment, offset));
        let count = match fragment {
            Some(_) => size / block_size,
            None => size.div_ceil(block_size),
        };
        if count > MOST_BLOCKS {
            return SquashReadError::damaged("a file of more blocks than are read", sizes.near());
        }
        let mut blocks = Vec::new();
        let mut position = start;
        for _ in 0..count {
            let size = sizes.u32()?;
            blocks.push((position, size));
            // Cannot overflow before it is beyond the image's end.
            position = position.saturating_add(u64::from(size & !DATA_STORED));
        }
        if count > 0 && position > self.superblock.bytes_used {
            return SquashReadError::damaged("a file beyond the image's end", start);
        }
        Ok(FileContent { size, blocks, fragment })
    }

    /// Where in the image a file's content begins; 0 where it has none.
    ///
    /// # Errors
    /// Where the image is damaged.
    pub fn position(&self, file: &FileContent) -> Result<u64, SquashReadError> {
        match (file.blocks.first(), file.fragment) {
            (Some((position, _)), _) => Ok(*position),
            (None, Some((fragment, _))) => self.fragment_position(fragment),
            (None, None) => Ok(0),
        }
    }

    fn fragment_position(&self, number: u32) -> Result<u64, SquashReadError> {
        match &self.fragments {
            Some(table) => table.entry(self, u64::from(number))?.u64(),
            None => SquashReadError::damaged("a fragment where there are none", 0),
        }
    }

    /// Reads from a file at an offset, as pread(2) does: returns how many bytes it has there, at
    /// most as many as there is room for.
    ///
    /// # Errors
    /// Where the image cannot be read, or is damaged.
    pub fn read_at(
        &self,
        file: &FileContent,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, SquashReadError> {
        let length = file.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let mut rest = &mut buffer[..length];
        let mut at = offset;
        while !rest.is_empty() {
            let done = self.read_block(file, at, rest)?;
            at += done as u64;
            rest = &mut rest[done..];
        }
        Ok(length)
    }

    /// Reads from one block. The buffer ends before the file does.
    fn read_block(
        &self,
        file: &FileContent,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, SquashReadError> {
        let block_size = u64::from(self.superblock.block_size);
        let number = offset / block_size;
        let within = (offset % block_size) as usize;
        let expected = (file.size - number * block_size).min(block_size) as usize;
        let length = buffer.len().min(expected - within);
        let buffer = &mut buffer[..length];
        let (block, from) = match file.blocks.get(number as usize) {
            Some((_, 0)) => {
                buffer.fill(0);
                return Ok(length);
            }
            Some((position, size)) => {
                let block = self.data(*position, *size)?;
                if block.bytes.len() != expected {
                    return SquashReadError::damaged("a block of the wrong length", *position);
                }
                (block, within)
            }
            None => {
                let Some((fragment, start)) = file.fragment else {
                    return SquashReadError::damaged("a file without an end", offset);
                };
                (self.fragment(fragment)?, start as usize + within)
            }
        };
        match block.bytes.get(from..from + length) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => {
                return SquashReadError::damaged("a fragment shorter than its files", block.next);
            }
        }
        Ok(length)
    }

    fn fragment(&self, number: u32) -> Result<Arc<UnpackedBlock>, SquashReadError> {
        let mut entry: Cursor<'_> = match &self.fragments {
            Some(table) => table.entry(self, u64::from(number))?,
            None => return SquashReadError::damaged("a fragment where there are none", 0),
        };
        let (position, size) = (entry.u64()?, entry.u32()?);
        self.data(position, size)
    }

    /// A block of data: where it is, and its size as it is written.
    fn data(&self, position: u64, size: u32) -> Result<Arc<UnpackedBlock>, SquashReadError> {
        let most = self.superblock.block_size;
        self.cache.get(BlockKey::Data(position), most as usize, || {
            let length = size & !DATA_STORED;
            let end = position.checked_add(u64::from(length));
            if length == 0
                || length > most
                || end.is_none_or(|end| end > self.superblock.bytes_used)
            {
                return SquashReadError::damaged("a block of an absurd size", position);
            }
            let mut packed = vec![0; length as usize];
            self.read_exact(position, &mut packed)?;
            let bytes = match size & DATA_STORED {
                0 => unpack(self.compression, &packed, most as usize),
                _ => Some(packed),
            };
            match bytes {
                Some(bytes) => Ok(UnpackedBlock { bytes, next: position + u64::from(length) }),
                None => SquashReadError::damaged("a block that cannot be decompressed", position),
            }
        })
    }
}
