//! How big everything is, as `mke2fs -t ext3 -b 4096` decides it (e2fsprogs: `ext2fs_initialize`
//! in lib/ext2fs/initialize.c, `calc_reserved_gdt_blocks` in lib/ext2fs/res_gdt.c,
//! `ext2fs_default_journal_size` in lib/ext2fs/mkjournal.c, and the defaults of mke2fs.conf).

/// Bytes of a block.
pub const BLOCK: usize = 4096;
/// Bytes of an inode.
pub const INODE: usize = 256;
/// A group's bitmap is one block: so many blocks a group.
pub const BLOCKS_PER_GROUP: u32 = 8 * BLOCK as u32;
/// Block numbers that fit a block.
pub const POINTERS: u32 = BLOCK as u32 / 4;
/// Inodes that fit a block.
const INODES_PER_BLOCK: u32 = (BLOCK / INODE) as u32;
/// Group descriptors, of 32 bytes, that fit a block.
const DESCRIPTORS_PER_BLOCK: u32 = BLOCK as u32 / 32;
/// A last group with fewer blocks for data is left out.
const LEAST_DATA: u32 = 50;

/// The smallest and the largest image: what apptainer makes at least, and what block numbers of
/// 32 bits can count.
pub const SIZES: std::ops::RangeInclusive<u64> = 64 << 20..=(u32::MAX as u64) * BLOCK as u64;

/// A filesystem's measures, in blocks unless they say otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// All of it.
    pub blocks: u32,
    /// How many groups.
    pub groups: u32,
    /// Inodes in a group.
    pub inodes_per_group: u32,
    /// Of the group descriptors.
    pub descriptors: u32,
    /// Kept free behind them, so that the filesystem can grow while it is mounted.
    pub reserved: u32,
    /// Of the journal.
    pub journal: u32,
}

impl Geometry {
    /// That of a filesystem in so many bytes. None if they are too few or too many.
    pub fn of(bytes: u64) -> Option<Geometry> {
        if !SIZES.contains(&bytes) {
            return None;
        }
        let blocks = u32::try_from(bytes / BLOCK as u64).ok()?;
        let geometry = Geometry::of_blocks(blocks, bytes / inode_ratio(bytes));
        // A rest too small for a group of its own is not used.
        let rest = blocks % BLOCKS_PER_GROUP;
        let last = geometry.groups - 1;
        if last > 0 && rest > 0 && rest < geometry.overhead(last) + LEAST_DATA {
            return Some(Geometry::of_blocks(blocks - rest, bytes / inode_ratio(bytes)));
        }
        Some(geometry)
    }

    fn of_blocks(blocks: u32, inodes: u64) -> Geometry {
        let groups = blocks.div_ceil(BLOCKS_PER_GROUP);
        let per_group = u32::try_from(inodes.div_ceil(u64::from(groups))).unwrap_or(u32::MAX);
        let per_group = per_group.min(BLOCKS_PER_GROUP).next_multiple_of(INODES_PER_BLOCK);
        let descriptors = groups.div_ceil(DESCRIPTORS_PER_BLOCK);
        Geometry {
            blocks,
            groups,
            inodes_per_group: per_group,
            descriptors,
            reserved: reserved(blocks, descriptors),
            journal: journal(blocks),
        }
    }

    /// How many inodes there are.
    pub fn inodes(&self) -> u32 {
        self.inodes_per_group * self.groups
    }

    /// Blocks of a group's table of inodes.
    pub fn inode_table(&self) -> u32 {
        self.inodes_per_group / INODES_PER_BLOCK
    }

    /// The first block of a group.
    pub fn first(&self, group: u32) -> u32 {
        group * BLOCKS_PER_GROUP
    }

    /// How many blocks a group has.
    pub fn length(&self, group: u32) -> u32 {
        (self.blocks - self.first(group)).min(BLOCKS_PER_GROUP)
    }

    /// The block of a group's block bitmap. That of the inodes, and their table, follow.
    pub fn bitmaps(&self, group: u32) -> u32 {
        let before = if has_super(group) { 1 + self.descriptors + self.reserved } else { 0 };
        self.first(group) + before
    }

    /// How many blocks of a group hold no data.
    pub fn overhead(&self, group: u32) -> u32 {
        self.bitmaps(group) - self.first(group) + 2 + self.inode_table()
    }
}

/// Whether a group has a copy of the superblock: 0, 1, and the powers of 3, 5 and 7.
pub fn has_super(group: u32) -> bool {
    let is_power = |base: u32| {
        let mut rest = group;
        while rest.is_multiple_of(base) {
            rest /= base;
        }
        rest == 1
    };
    group <= 1 || [3, 5, 7].into_iter().any(is_power)
}

/// Bytes for each of which an inode is made: `small`, `ext3`, `big`, `huge` of mke2fs.conf.
fn inode_ratio(bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    match bytes / MIB {
        ..512 => 4096,
        512..0x40_0000 => 16384,
        0x40_0000..0x100_0000 => 32768,
        _ => 65536,
    }
}

/// Room for the descriptors of a filesystem 1024 times as large.
fn reserved(blocks: u32, descriptors: u32) -> u32 {
    let groups = blocks.saturating_mul(1024).div_ceil(BLOCKS_PER_GROUP);
    let needed = groups.div_ceil(DESCRIPTORS_PER_BLOCK);
    needed.saturating_sub(descriptors).min(POINTERS)
}

fn journal(blocks: u32) -> u32 {
    const K: u32 = 1024;
    match blocks / K {
        ..32 => K,
        32..256 => 4 * K,
        256..512 => 8 * K,
        512..4096 => 16 * K,
        4096..8192 => 32 * K,
        8192..16384 => 64 * K,
        16384..32768 => 128 * K,
        _ => 256 * K,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_are_copied_to_powers_of_3_5_and_7() {
        let copies: Vec<_> = (0..130).filter(|group| has_super(*group)).collect();
        assert_eq!(copies, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }

    #[test]
    fn no_size_is_taken_that_32_bits_cannot_count() {
        assert!(Geometry::of((64 << 20) - 1).is_none());
        assert!(Geometry::of(u64::MAX).is_none());
        let largest = Geometry::of(*SIZES.end()).unwrap();
        assert_eq!(largest.blocks, u32::MAX);
        assert_eq!(largest.groups, 131_072);
        assert_eq!(largest.reserved, 0);
    }
}
