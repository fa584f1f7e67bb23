//! The compressors that are written: one block at a time, each on its own.

use std::io;

use flate2::{Compress, FlushCompress, Status};

/// How an image is compressed that is made here. What others made is read in more ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// zlib's streams. Read by every kernel.
    Gzip,
    /// The quickest to read, and larger.
    Lz4,
    /// Nearly as quick, and smaller. Read by Linux 4.14 and later.
    Zstd,
}

impl Compression {
    /// All of them.
    pub const ALL: [Compression; 3] = [Compression::Zstd, Compression::Lz4, Compression::Gzip];

    /// What mksquashfs's option `-comp` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// What the superblock calls it.
    pub(crate) fn number(self) -> u16 {
        match self {
            Compression::Gzip => 1,
            Compression::Lz4 => 5,
            Compression::Zstd => 6,
        }
    }

    /// The levels that it has, from quick to small; none: there is no choice.
    pub fn levels(self) -> Option<std::ops::RangeInclusive<i32>> {
        match self {
            Compression::Gzip => Some(1..=9),
            Compression::Lz4 => None,
            Compression::Zstd => Some(1..=22),
        }
    }

    /// The level that is used where none is asked for. zstd's is 3: mksquashfs's 15 takes ten
    /// times as long for a tenth less.
    pub fn default_level(self) -> i32 {
        match self {
            Compression::Gzip => 6,
            Compression::Lz4 => 0,
            Compression::Zstd => 3,
        }
    }

    /// What follows the superblock: lz4's readers demand it, for the others it says the level.
    pub(crate) fn options_block(self, level: i32) -> Vec<u8> {
        match self {
            // The version of the format (LZ4_LEGACY: bare blocks), and no flags.
            Compression::Lz4 => [1u32, 0].map(u32::to_le_bytes).concat(),
            Compression::Zstd => level.to_le_bytes().to_vec(),
            // The window's size, and no strategies beyond the default.
            Compression::Gzip => [&level.to_le_bytes()[..], &15u16.to_le_bytes(), &[0, 0]].concat(),
        }
    }
}

/// Compresses blocks. One a thread: making it costs more than a block.
pub(crate) enum Packer {
    Gzip(Box<Compress>),
    Lz4,
    Zstd(Box<zstd::bulk::Compressor<'static>>),
}

impl Packer {
    pub(crate) fn new(compression: Compression, level: i32) -> io::Result<Packer> {
        Ok(match compression {
            Compression::Gzip => {
                let level = flate2::Compression::new(level.clamp(0, 9) as u32);
                Packer::Gzip(Box::new(Compress::new(level, true)))
            }
            Compression::Lz4 => Packer::Lz4,
            Compression::Zstd => Packer::Zstd(Box::new(zstd::bulk::Compressor::new(level)?)),
        })
    }

    /// The block, compressed; none where it would not be smaller.
    pub(crate) fn pack(&mut self, block: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let packed = match self {
            Packer::Gzip(compress) => gzip(compress, block)?,
            Packer::Lz4 => Some(lz4_flex::block::compress(block)),
            Packer::Zstd(compressor) => Some(compressor.compress(block)?),
        };
        Ok(packed.filter(|packed| packed.len() < block.len()))
    }
}

fn gzip(compress: &mut Compress, block: &[u8]) -> io::Result<Option<Vec<u8>>> {
    compress.reset();
    let mut packed = Vec::with_capacity(block.len());
    let status = compress.compress_vec(block, &mut packed, FlushCompress::Finish);
    let status = status.map_err(io::Error::other)?;
    // Where it does not fit into the block's own size, it is not wanted.
    Ok((status == Status::StreamEnd).then_some(packed))
}

#[cfg(test)]
mod tests {
    use super::super::decompress::{Decompression, unpack};
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_again() {
        let block: Vec<u8> = (0..100_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for compression in Compression::ALL {
            let mut packer = Packer::new(compression, compression.default_level()).unwrap();
            let how = Decompression::from_number(compression.number()).unwrap();
            assert_eq!(how.name(), compression.name());
            for part in [&block[..1], &block[..5000], &block] {
                let Some(packed) = packer.pack(part).unwrap() else { continue };
                assert!(packed.len() < part.len());
                assert_eq!(unpack(how, &packed, part.len()).as_deref(), Some(part));
                assert_eq!(unpack(how, &packed, part.len() - 1), None, "a bomb");
                assert_eq!(unpack(how, &packed[..packed.len() - 1], part.len()), None);
            }
        }
    }

    #[test]
    fn what_cannot_be_made_smaller_is_left() {
        let mut noise = vec![0u8; 4096];
        let mut state = 1u64;
        noise.iter_mut().for_each(|byte| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        });
        for compression in Compression::ALL {
            let mut packer = Packer::new(compression, compression.default_level()).unwrap();
            assert_eq!(packer.pack(&noise).unwrap(), None, "{}", compression.name());
        }
    }
}
