//! The superblock: written, and read without belief.

use std::io;

use super::geometry::{BLOCK, BLOCKS_PER_GROUP, Geometry, INODE};
use super::inode::EXTRA;
use super::tree::LOST_AND_FOUND;
use crate::source::ReadAt;

/// Where it is, and how many bytes it has.
pub const PLACE: u64 = 1024;
pub const SIZE: usize = 1024;

const MAGIC: u16 = 0xef53;

/// What mke2fs gives an ext3: journal, attributes, room to grow, indexed directories; types in
/// directories; few copies of the superblock, files over 2 GiB.
const COMPATIBLE: u32 = 0x4 | 0x8 | 0x10 | 0x20;
const INCOMPATIBLE: u32 = 0x2;
const READ_ONLY_COMPATIBLE: u32 = 0x1 | 0x2;

/// What an ext3 may have in the way of features that a reader must know, as apptainer decides it
/// (pkg/image/ext3.go): types in directories, a journal to be replayed, metadata groups.
const EXT3_INCOMPATIBLE: u32 = 0x2 | 0x4 | 0x10;
const EXT3_READ_ONLY_COMPATIBLE: u32 = 0x1 | 0x2 | 0x4;

/// What differs from image to image.
pub struct Ext3Superblock<'a> {
    pub geometry: &'a Geometry,
    pub free_blocks: u32,
    pub free_inodes: u32,
    pub overhead: u32,
    pub uuid: [u8; 16],
    pub hash_seed: [u8; 16],
    /// Seconds since 1970.
    pub time: u32,
    /// The map of the journal's inode, kept here too, and its bytes.
    pub journal: ([u32; 15], u64),
}

impl Ext3Superblock<'_> {
    /// The copy that a group has (ext4(5), "struct ext4_super_block").
    pub fn bytes(&self, group: u32) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        let (journal, journal_size) = self.journal;
        let numbers: [(usize, u32); 31] = [
            (0, self.geometry.inodes()),
            (4, self.geometry.blocks),
            // None reserved for root: whoever fills an overlay is not root.
            (8, 0),
            (12, self.free_blocks),
            (16, self.free_inodes),
            (20, 0),
            (24, (BLOCK / 1024).ilog2()),
            (28, (BLOCK / 1024).ilog2()),
            (32, BLOCKS_PER_GROUP),
            (36, BLOCKS_PER_GROUP),
            (40, self.geometry.inodes_per_group),
            (48, self.time),
            // Mounted never, checked after no number of mounts.
            (52, 0xffff << 16),
            // Unmounted cleanly.
            (56, u32::from(MAGIC) | 1 << 16),
            // Goes on after an error.
            (60, 1),
            (64, self.time),
            (76, 1),
            (84, LOST_AND_FOUND),
            (88, INODE as u32 | (group & 0xffff) << 16),
            (92, COMPATIBLE),
            (96, INCOMPATIBLE),
            (100, READ_ONLY_COMPATIBLE),
            (204, self.geometry.reserved << 16),
            (224, super::JOURNAL_INODE),
            // Directories are indexed by half-MD4; the journal's map is kept here.
            (252, 1 | 1 << 8),
            // acl, user_xattr
            (256, 0xc),
            (264, self.time),
            (328, (journal_size >> 32) as u32),
            (332, journal_size as u32),
            // Names are hashed as signed chars, whichever processor's kernel mounts it.
            (352, 1),
            (584, self.overhead),
        ];
        for (at, number) in numbers {
            put(at, &number.to_le_bytes());
        }
        put(104, &self.uuid);
        put(236, &self.hash_seed);
        put(268, &journal.map(u32::to_le_bytes).concat());
        put(348, &[EXTRA.to_le_bytes(), EXTRA.to_le_bytes()].concat());
        bytes
    }
}

/// What a filesystem of the ext family says of itself.
#[derive(Clone, Debug)]
pub struct Ext3Facts {
    /// Whether apptainer takes it as ext3: a journal, and nothing that ext3 has not.
    pub is_ext3: bool,
    /// Bytes of the filesystem, as it says.
    pub size: u64,
    /// Bytes free in it, as it says; at most `size`.
    pub free: u64,
    /// Bytes of a block.
    pub block: u32,
    /// How many files it can hold, and how many more.
    pub inodes: u32,
    /// See `inodes`; at most as many.
    pub free_inodes: u32,
    /// Whether it was unmounted cleanly, and its journal needs no replay.
    pub is_clean: bool,
    /// Its number.
    pub uuid: [u8; 16],
    /// When it was last written to, in seconds since 1970.
    pub written: u32,
}

impl Ext3Facts {
    /// Those of the filesystem in `source`; None if there is no ext2, ext3 or ext4 in it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read<S: ReadAt + ?Sized>(source: &S) -> io::Result<Option<Ext3Facts>> {
        let mut bytes = [0; SIZE];
        match source.read_exact_at(&mut bytes, PLACE) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            done => done?,
        }
        Ok(Ext3Facts::parse(&bytes))
    }

    fn parse(bytes: &[u8; SIZE]) -> Option<Ext3Facts> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        // Blocks of 1 KiB to 64 KiB: what the kernel reads.
        let block = u32_at(24);
        if u16_at(56) != MAGIC || block > 6 {
            return None;
        }
        let block = 1024 << block;
        let (compatible, incompatible, read_only) = (u32_at(92), u32_at(96), u32_at(100));
        // ext4 counts on in 32 bits more, where it says so.
        let high = |at| if incompatible & 0x80 != 0 { u64::from(u32_at(at)) << 32 } else { 0 };
        let bytes_of = |blocks: u64| blocks.saturating_mul(u64::from(block));
        let size = bytes_of(high(336) | u64::from(u32_at(4)));
        let inodes = u32_at(0);
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[104..120]);
        Some(Ext3Facts {
            is_ext3: compatible & 0x4 != 0
                && incompatible & !EXT3_INCOMPATIBLE == 0
                && read_only & !EXT3_READ_ONLY_COMPATIBLE == 0,
            size,
            free: bytes_of(high(344) | u64::from(u32_at(12))).min(size),
            block,
            inodes,
            free_inodes: u32_at(16).min(inodes),
            is_clean: u16_at(58) & 1 != 0 && incompatible & 0x4 == 0,
            uuid,
            written: u32_at(48),
        })
    }
}
