//! The compressors that are read: all that squashfs has, one block at a time, each on its own.
//!
//! A block says how much memory it wants; it gets no more than what it may become needs. zstd's is C,
//! all others are Rust.

use std::cell::RefCell;
use std::io::Read;

use flate2::{Decompress, FlushDecompress, Status};
use lzma_rust2::LzmaReader;

use super::xz;

/// How the blocks of an image are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decompression {
    Gzip,
    /// The first of the family, of before 2011. No kernel reads it, squashfuse does.
    Lzma,
    Lzo,
    Xz,
    Lz4,
    Zstd,
}

impl Decompression {
    /// All, in the order of their numbers.
    const ALL: [Decompression; 6] = [
        Decompression::Gzip,
        Decompression::Lzma,
        Decompression::Lzo,
        Decompression::Xz,
        Decompression::Lz4,
        Decompression::Zstd,
    ];

    /// By what the superblock calls it: from 1.
    pub(crate) fn from_number(number: u16) -> Option<Decompression> {
        Decompression::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// What mksquashfs's option `-comp` calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Decompression::Gzip => "gzip",
            Decompression::Lzma => "lzma",
            Decompression::Lzo => "lzo",
            Decompression::Xz => "xz",
            Decompression::Lz4 => "lz4",
            Decompression::Zstd => "zstd",
        }
    }
}

thread_local! {
    /// Making one costs as much as a small block.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// The block that was compressed, if it is one and has at most `most` bytes.
pub(crate) fn unpack(how: Decompression, packed: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut block = vec![0; most];
    let length = match how {
        Decompression::Gzip => {
            let mut stream = Decompress::new(true);
            let status = stream.decompress(packed, &mut block, FlushDecompress::Finish).ok()?;
            (status == Status::StreamEnd).then(|| stream.total_out() as usize)?
        }
        Decompression::Lzma => lzma(packed, &mut block)?,
        Decompression::Lzo => lzokay::decompress::decompress(packed, &mut block).ok()?,
        Decompression::Xz => xz::unpack(packed, &mut block)?,
        Decompression::Lz4 => lz4_flex::block::decompress_into(packed, &mut block).ok()?,
        Decompression::Zstd => ZSTD.with_borrow_mut(|kept| {
            let decompressor = match kept {
                Some(decompressor) => decompressor,
                None => kept.insert(zstd::bulk::Decompressor::new().ok()?),
            };
            decompressor.decompress_to_buffer(packed, &mut block[..]).ok()
        })?,
    };
    block.truncate(length);
    Some(block)
}

/// A stream of `lzma_alone`: properties, the dictionary's size, the content's size, and the content.
fn lzma(packed: &[u8], block: &mut [u8]) -> Option<usize> {
    let (header, stream) = packed.split_first_chunk::<13>()?;
    let [properties, header @ ..] = header;
    let (dictionary, size) = header.split_first_chunk::<4>()?;
    let dictionary = u32::from_le_bytes(*dictionary);
    let size = u64::from_le_bytes(size.try_into().ok()?);
    if size != u64::MAX && size > block.len() as u64 {
        return None;
    }
    let dictionary = needed_dictionary(dictionary, block.len());
    let mut reader =
        LzmaReader::new_with_props(stream, size, *properties, dictionary, None).ok()?;
    // liblzma writes a mark at the end, though it has said the size.
    reader.set_relaxed_end_condition(true);
    let length = read_block(&mut reader, block)?;
    (size == u64::MAX || size == length as u64).then_some(length)
}

/// The dictionary that a block needs, whatever it asks for: nothing in it refers to what is before
/// its start.
pub(super) fn needed_dictionary(asked: u32, most: usize) -> u32 {
    asked.min(u32::try_from(most).unwrap_or(u32::MAX)).max(4096)
}

/// Reads to the end, if the block has room for all of it.
pub(super) fn read_block(reader: &mut dyn Read, block: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    while length < block.len() {
        match reader.read(&mut block[length..]).ok()? {
            0 => return Some(length),
            more => length += more,
        }
    }
    // What stands at the end is read, and checked, only now.
    (reader.read(&mut [0]).ok()? == 0).then_some(length)
}
