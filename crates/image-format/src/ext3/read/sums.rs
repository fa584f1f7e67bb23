//! The checksums of metadata_csum: crc32c of inodes, directories, extents, attributes, group descriptors and
//! the superblock, each begun with the filesystem's number and what it belongs to (the kernel's
//! fs/ext4: `ext4_inode_csum`, `ext4_dirblock_csum`, `ext4_dx_csum`, `ext4_extent_block_csum`,
//! `ext4_xattr_block_csum`, `ext4_group_desc_csum`, `ext4_superblock_csum`).
//!
//! What does not have its sum is damaged: a changed bit would else be another size, mode or name.

use super::{Ext3ReadError, u16_at, u32_at};

/// Where an inode has its sum: the lower half, and the upper one where there is room for it.
const INODE_LOW: usize = 124;
const INODE_HIGH: usize = 130;
/// The generation that an inode's number is of.
const GENERATION: usize = 100;
/// What ends a directory's block: an entry of no inode, of this length and kind, with the sum.
const TAIL: usize = 12;
const TAIL_KIND: u8 = 0xde;
/// What ends an index over names: four bytes that are not used, and the sum.
const INDEX_TAIL: usize = 8;

/// The beginning of the sums of a filesystem, or of what belongs to one inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetadataSums(u32);

impl MetadataSums {
    /// Those of a filesystem, by its superblock.
    pub fn of(superblock: &[u8; 1024]) -> Result<MetadataSums, Ext3ReadError> {
        const CRC32C: u8 = 1;
        if superblock[0x175] != CRC32C {
            return Err(Ext3ReadError::Unsupported("checksums that are not crc32c"));
        }
        if crc32c(!0, &superblock[..1020]) != u32_at(superblock, 1020) {
            return Err(Ext3ReadError::Damaged("its superblock does not have its checksum"));
        }
        // A filesystem that was given another number keeps what its sums began with.
        let has_seed = u32_at(superblock, 96) & 0x2000 != 0;
        Ok(MetadataSums(match has_seed {
            true => u32_at(superblock, 0x270),
            false => crc32c(!0, &superblock[104..120]),
        }))
    }

    /// Looks at a group's descriptor.
    pub fn descriptor(self, group: u32, bytes: &[u8]) -> Result<(), Ext3ReadError> {
        let sum = crc32c(self.0, &group.to_le_bytes());
        let sum = crc32c(crc32c(crc32c(sum, &bytes[..30]), &[0; 2]), &bytes[32..]);
        match sum as u16 == u16_at(bytes, 30) {
            true => Ok(()),
            false => wrong("a group's descriptor does not have its checksum"),
        }
    }

    /// Looks at an inode, and says with what the sums of its blocks begin.
    pub fn inode(self, number: u32, bytes: &[u8]) -> Result<MetadataSums, Ext3ReadError> {
        let own = crc32c(self.0, &number.to_le_bytes());
        let own = crc32c(own, &bytes[GENERATION..GENERATION + 4]);
        let sum = crc32c(crc32c(own, &bytes[..INODE_LOW]), &[0; 2]);
        let mut said = u32::from(u16_at(bytes, INODE_LOW));
        let has_high =
            bytes.len() > INODE_HIGH + 2 && 128 + usize::from(u16_at(bytes, 128)) >= INODE_HIGH + 2;
        let sum = match has_high {
            true => {
                said |= u32::from(u16_at(bytes, INODE_HIGH)) << 16;
                let sum = crc32c(sum, &bytes[INODE_LOW + 2..INODE_HIGH]);
                crc32c(crc32c(sum, &[0; 2]), &bytes[INODE_HIGH + 2..])
            }
            false => crc32c(sum, &bytes[INODE_LOW + 2..]) & 0xffff,
        };
        match sum == said {
            true => Ok(MetadataSums(own)),
            false => wrong("an inode does not have its checksum"),
        }
    }

    /// Looks at a block of a directory. `is_first` is said of the first one, `is_indexed` of all, where
    /// there is an index over its names.
    pub fn directory(
        self,
        block: &[u8],
        is_indexed: bool,
        is_first: bool,
    ) -> Result<(), Ext3ReadError> {
        // An index is in an entry that seems to be empty, and as long as the block.
        let is_index = is_indexed && (is_first || entry_length(block, 0) == block.len());
        let is_right = match is_index {
            true => self.index(block),
            false => {
                let tail = &block[block.len() - TAIL..];
                let has_tail = u32_at(tail, 0) == 0
                    && usize::from(u16_at(tail, 4)) == TAIL
                    && (tail[6], tail[7]) == (0, TAIL_KIND);
                has_tail && crc32c(self.0, &block[..block.len() - TAIL]) == u32_at(tail, 8)
            }
        };
        match is_right {
            true => Ok(()),
            false => wrong("a directory does not have its checksum"),
        }
    }

    /// Whether a block of an index has its sum.
    fn index(self, block: &[u8]) -> bool {
        let start = match entry_length(block, 0) {
            all if all == block.len() => 8,
            // Behind `.` and `..`, and what is said of the index.
            12 if entry_length(block, 12) == block.len() - 12 && block[29] == 8 => 32,
            _ => return false,
        };
        let (limit, count) =
            (usize::from(u16_at(block, start)), usize::from(u16_at(block, start + 2)));
        let (end, tail) = (start + count * 8, start + limit * 8);
        if count > limit || tail + INDEX_TAIL > block.len() {
            return false;
        }
        let sum = crc32c(crc32c(self.0, &block[..end]), &block[tail..tail + 4]);
        crc32c(sum, &[0; 4]) == u32_at(block, tail + 4)
    }

    /// Looks at a block of a tree of extents.
    pub fn extents(self, block: &[u8]) -> Result<(), Ext3ReadError> {
        let end = 12 + 12 * usize::from(u16_at(block, 4));
        match end + 4 <= block.len() && crc32c(self.0, &block[..end]) == u32_at(block, end) {
            true => Ok(()),
            false => wrong("a tree of extents does not have its checksum"),
        }
    }

    /// Looks at a block of attributes, by its number.
    pub fn xattrs(self, number: u64, block: &[u8]) -> Result<(), Ext3ReadError> {
        let sum = crc32c(crc32c(self.0, &number.to_le_bytes()), &block[..16]);
        match crc32c(crc32c(sum, &[0; 4]), &block[20..]) == u32_at(block, 16) {
            true => Ok(()),
            false => wrong("attributes do not have their checksum"),
        }
    }
}

fn wrong<T>(what: &'static str) -> Result<T, Ext3ReadError> {
    Err(Ext3ReadError::Damaged(what))
}

/// How long the entry at a position of a directory's block is.
fn entry_length(block: &[u8], at: usize) -> usize {
    match usize::from(u16_at(block, at + 4)) {
        // What 16 bits cannot say of a block of 64 KiB.
        0 | 0xffff => block.len(),
        length => length,
    }
}

/// CRC-32C (Castagnoli), from the least bit on; neither begun nor ended by turning bits over, as ext4 has
/// it.
fn crc32c(sum: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(sum, |sum, byte| TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8))
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_one_of_rfc_3720() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
        assert_eq!(!crc32c(!0, &[0; 32]), 0x8a91_36aa);
    }
}
