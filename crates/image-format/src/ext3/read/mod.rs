//! The reader: an ext2, ext3 or ext4 filesystem in a file, that nobody writes to meanwhile.
//!
//! No number in it is believed: each position is held against its end, and no more blocks are read of
//! all its files together than it has.
//!
//! | file | what it holds |
//! |---|---|
//! | `blocks` | where a file's blocks are: maps and extents |
//! | `directory` | names |
//! | `xattrs` | extended attributes |
//! | `sums` | the checksums of all of these |

mod blocks;
mod directory;
mod sums;
mod xattrs;

use std::cell::Cell;
use std::io;

use sums::MetadataSums;

use super::superblock::{Ext3Facts, PLACE, SIZE};
use crate::source::ReadAt;
use crate::squash::XattrPair;

/// The root directory's inode.
pub(crate) const ROOT: u32 = 2;
/// Features that change how it is read, and are known here: types in directories, extents, 64 bits,
/// a block that says who has it mounted, groups together, the beginning of sums, large directories.
const KNOWN: u32 = 0x2 | 0x40 | 0x80 | 0x100 | 0x200 | 0x2000 | 0x4000;
/// Features that a reader may ignore but for these: snapshots, clusters of blocks, blocks that several files
/// have.
const UNREAD: u32 = 0x80 | 0x200 | 0x4000;
/// All of its metadata has checksums.
const METADATA_SUMS: u32 = 0x400;
/// A journal that is to be replayed.
const RECOVER: u32 = 0x4;

/// Why a filesystem in a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Ext3ReadError {
    /// The system said no.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("it is no ext3 filesystem")]
    NotExt3,
    /// What was written last is in its journal only.
    #[error(
        "it was not unmounted cleanly, and what was written last may be in its journal only: put that \
         right with e2fsck -p"
    )]
    Unclean,
    /// It needs more than is known here.
    #[error("it has a feature that is not read here ({0}); root can have the kernel mount it")]
    Unsupported(&'static str),
    /// It holds more than a squashfs can.
    #[error("it cannot be shown: {0}")]
    Tables(String),
    /// It contradicts itself, or is cut off.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

/// What an inode says.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub mode: u16,
    pub owner: (u32, u32),
    pub size: u64,
    /// Seconds since 1970.
    pub mtime: i64,
    /// Its content begins in it: a short link's target, a device's number, a map.
    pub block: [u8; 60],
    pub has_extents: bool,
    /// Of a directory: over its names there is an index.
    has_index: bool,
    /// What the sums of its blocks begin with, where they have some.
    sums: Option<MetadataSums>,
    pub xattrs: Vec<XattrPair>,
}

/// A filesystem that is read.
pub(crate) struct Ext3<'a> {
    source: &'a dyn ReadAt,
    /// Bytes of a block.
    pub block: u64,
    /// Bytes of all its blocks.
    pub size: u64,
    pub inodes: u32,
    inodes_per_group: u32,
    inode_size: u64,
    descriptor_size: u64,
    /// Where the groups' descriptors begin.
    descriptors: u64,
    sums: Option<MetadataSums>,
    /// Whether there are indices over names.
    has_indices: bool,
    /// Blocks that may still be read: no more than it has.
    left: Cell<u64>,
}

impl<'a> Ext3<'a> {
    /// The filesystem in a source.
    pub fn open(source: &'a dyn ReadAt) -> Result<Ext3<'a>, Ext3ReadError> {
        let facts = Ext3Facts::read(source)?.ok_or(Ext3ReadError::NotExt3)?;
        let mut bytes = [0; SIZE];
        source.read_exact_at(&mut bytes, PLACE)?;
        let features = u32_at(&bytes, 96);
        let is_dynamic = u32_at(&bytes, 76) > 0;
        if !facts.is_clean || features & RECOVER != 0 {
            return Err(Ext3ReadError::Unclean);
        }
        if features & !KNOWN != 0 {
            return Err(Ext3ReadError::Unsupported(feature_name(features & !KNOWN)));
        }
        let lenient = u32_at(&bytes, 100);
        if lenient & UNREAD != 0 {
            return Err(Ext3ReadError::Unsupported(match lenient & UNREAD {
                it if it & 0x200 != 0 => "bigalloc",
                it if it & 0x4000 != 0 => "shared_blocks",
                _ => "snapshots",
            }));
        }
        let has_sums = lenient & METADATA_SUMS != 0;
        let sums = has_sums.then(|| MetadataSums::of(&bytes)).transpose()?;
        let inode_size = if is_dynamic { u64::from(u16_at(&bytes, 88)) } else { 128 };
        let descriptor_size = match features & 0x80 {
            0 => 32,
            _ => u64::from(u16_at(&bytes, 254)),
        };
        let block = u64::from(facts.block);
        let inodes_per_group = u32_at(&bytes, 40);
        let first_block = u64::from(u32_at(&bytes, 20));
        if facts.size > source.size()? {
            return Err(Ext3ReadError::Damaged("its end is missing"));
        }
        let is_whole = (128..=block).contains(&inode_size)
            && (32..=1024).contains(&descriptor_size)
            && inodes_per_group > 0
            && first_block <= 1
            && facts.inodes > 0;
        if !is_whole {
            return Err(Ext3ReadError::Damaged("its measures cannot be"));
        }
        Ok(Ext3 {
            source,
            block,
            size: facts.size,
            inodes: facts.inodes,
            inodes_per_group,
            inode_size,
            descriptor_size,
            descriptors: (first_block + 1) * block,
            sums,
            has_indices: u32_at(&bytes, 92) & 0x20 != 0,
            left: Cell::new(facts.size / block),
        })
    }

    /// Reads bytes at a position in it.
    pub fn read(&self, position: u64, buffer: &mut [u8]) -> Result<(), Ext3ReadError> {
        match position.checked_add(buffer.len() as u64) {
            Some(end) if end <= self.size => Ok(self.source.read_exact_at(buffer, position)?),
            _ => Err(Ext3ReadError::Damaged("something beyond its end")),
        }
    }

    /// A block, by its number.
    fn read_block(&self, number: u64) -> Result<Vec<u8>, Ext3ReadError> {
        self.spend(1)?;
        let mut block = vec![0; self.block as usize];
        self.read(number.saturating_mul(self.block), &mut block)?;
        Ok(block)
    }

    /// So many blocks are some file's: all together cannot have more than there are.
    fn spend(&self, blocks: u64) -> Result<(), Ext3ReadError> {
        let left = self.left.get().checked_sub(blocks);
        self.left.set(left.ok_or(Ext3ReadError::Damaged("its files have more blocks than it"))?);
        Ok(())
    }

    /// An inode, by its number.
    pub fn inode(&self, number: u32) -> Result<Inode, Ext3ReadError> {
        if number == 0 || number > self.inodes {
            return Err(Ext3ReadError::Damaged("a name of an inode that there is not"));
        }
        let (group, index) =
            ((number - 1) / self.inodes_per_group, (number - 1) % self.inodes_per_group);
        let mut descriptor = vec![0; self.descriptor_size as usize];
        self.read(self.descriptors + u64::from(group) * self.descriptor_size, &mut descriptor)?;
        if let Some(sums) = self.sums {
            sums.descriptor(group, &descriptor)?;
        }
        let high =
            if descriptor.len() >= 64 { u64::from(u32_at(&descriptor, 40)) << 32 } else { 0 };
        let table = (high | u64::from(u32_at(&descriptor, 8))).saturating_mul(self.block);
        let mut bytes = vec![0; self.inode_size as usize];
        self.read(table.saturating_add(u64::from(index) * self.inode_size), &mut bytes)?;
        let sums = self.sums.map(|sums| sums.inode(number, &bytes)).transpose()?;
        let flags = u32_at(&bytes, 32);
        if flags & 0x1000_0000 != 0 {
            return Err(Ext3ReadError::Unsupported("inline_data"));
        }
        let mut block = [0; 60];
        block.copy_from_slice(&bytes[40..100]);
        let mode = u16_at(&bytes, 0);
        let half = |low: usize, high: usize| {
            u32::from(u16_at(&bytes, low)) | u32::from(u16_at(&bytes, high)) << 16
        };
        // Only regular files are larger than 4 GiB; elsewhere the field is another one.
        let high = if mode & 0o170_000 == 0o100_000 { u64::from(u32_at(&bytes, 108)) } else { 0 };
        Ok(Inode {
            mode,
            owner: (half(2, 120), half(24, 122)),
            size: high << 32 | u64::from(u32_at(&bytes, 4)),
            mtime: i64::from(u32_at(&bytes, 16) as i32),
            block,
            has_extents: flags & 0x8_0000 != 0,
            has_index: self.has_indices && flags & 0x1000 != 0,
            sums,
            xattrs: self.xattrs(&bytes)?,
        })
    }
}

fn feature_name(features: u32) -> &'static str {
    match features {
        it if it & 0x1 != 0 => "compression",
        it if it & 0x8 != 0 => "journal_dev",
        it if it & 0x1000 != 0 => "dirdata",
        it if it & 0x10 != 0 => "meta_bg",
        it if it & 0x400 != 0 => "ea_inode",
        it if it & 0x8000 != 0 => "inline_data",
        it if it & 0x1_0000 != 0 => "encrypt",
        it if it & 0x2_0000 != 0 => "casefold",
        _ => "one of its own",
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
