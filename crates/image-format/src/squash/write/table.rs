//! Metadata: blocks of 8 KiB, each with a header that says its size, and tables over them.

use std::io;
use std::path::Path;

use crate::ImageWriter;
use crate::SquashWriteError;
use crate::squash::compression::Packer;
use crate::squash::format::{METADATA, METADATA_STORED};

/// Metadata that is being written: compressed block by block, kept in memory.
pub(crate) struct Metadata<'a> {
    packer: &'a mut Packer,
    packed: Vec<u8>,
    block: Vec<u8>,
    /// Where each block begins in `packed`.
    starts: Vec<u64>,
}

/// A place in metadata: where its block begins in the table, and the offset in the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetadataPosition {
    pub block: u64,
    pub offset: u16,
}

impl MetadataPosition {
    /// As inodes and xattrs are referred to.
    pub(crate) fn reference(self) -> u64 {
        self.block << 16 | u64::from(self.offset)
    }
}

impl<'a> Metadata<'a> {
    pub(crate) fn new(packer: &'a mut Packer) -> Metadata<'a> {
        Metadata { packer, packed: Vec::new(), block: Vec::new(), starts: Vec::new() }
    }

    /// Where the next byte goes.
    pub(crate) fn place(&self) -> MetadataPosition {
        MetadataPosition { block: self.packed.len() as u64, offset: self.block.len() as u16 }
    }

    pub(crate) fn put(&mut self, mut bytes: &[u8]) -> Result<(), SquashWriteError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(METADATA - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == METADATA {
                self.end_block()?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), SquashWriteError> {
        self.starts.push(self.packed.len() as u64);
        let packed = self.packer.pack(&self.block);
        let packed = packed.map_err(SquashWriteError::at("compress", Path::new("metadata")))?;
        let (header, bytes) = match &packed {
            Some(packed) => (packed.len() as u16, packed),
            None => (self.block.len() as u16 | METADATA_STORED, &self.block),
        };
        self.packed.extend_from_slice(&header.to_le_bytes());
        self.packed.extend_from_slice(bytes);
        self.block.clear();
        Ok(())
    }

    /// All of it as it goes into the image, and where each block begins in it.
    pub(crate) fn finish(mut self) -> Result<(Vec<u8>, Vec<u64>), SquashWriteError> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        Ok((self.packed, self.starts))
    }
}

/// Writes a table with an index: the entries as metadata, then the position of each of its
/// blocks. Returns the position of the index, which is where readers begin.
pub(crate) fn put_indexed(
    out: &mut ImageWriter<'_>,
    packer: &mut Packer,
    entries: &[u8],
) -> Result<u64, SquashWriteError> {
    let mut metadata = Metadata::new(packer);
    metadata.put(entries)?;
    let (packed, starts) = metadata.finish()?;
    let base = out.position();
    out.put(&packed)?;
    let index = out.position();
    for start in starts {
        out.put(&(base + start).to_le_bytes())?;
    }
    Ok(index)
}

/// What stands before a compressor's options: they are never compressed.
pub(crate) fn stored(options: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(options.len()).map_err(io::Error::other)?;
    Ok([&(length | METADATA_STORED).to_le_bytes()[..], options].concat())
}
