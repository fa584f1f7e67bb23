//! Lays a new filesystem out and writes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};
use sha2::{Digest, Sha256};

use super::geometry::{BLOCK, BLOCKS_PER_GROUP, Geometry, INODE, has_super};
use super::inode::{BlockMap, DIRECTORY, Ext3Inode, FILE, block_of};
use super::superblock::{Ext3Superblock, PLACE};
use super::tree::{LOST_AND_FOUND, OverlayDirectory, OverlayTree};
use super::{Ext3Error, Ext3Overlay, JOURNAL_INODE};

/// The inode that holds the blocks kept for more group descriptors.
const RESIZE_INODE: u32 = 7;

/// Makes the filesystem in `out`, an empty file open for writing.
///
/// # Errors
/// Where it cannot be as it is wanted, or writing fails. `out` is then of no use.
pub fn create(out: &File, overlay: &Ext3Overlay) -> Result<(), Ext3Error> {
    let geometry = Geometry::of(overlay.size).ok_or(Ext3Error::Size(overlay.size))?;
    let tree = OverlayTree::of_overlay(&overlay.directories)?;
    let plan = Ext3Plan::of(&geometry, overlay, &tree)?;
    if !overlay.sparse {
        let failed = |error: rustix::io::Errno| Ext3Error::Allocate {
            size: overlay.size,
            error: error.into(),
        };
        fallocate(out, FallocateFlags::empty(), 0, overlay.size).map_err(failed)?;
    }
    out.set_len(overlay.size)?;
    plan.write(out)?;
    Ok(())
}

/// Gives blocks out, in order: in each group, those that are taken are at its beginning.
struct Allocator<'a> {
    geometry: &'a Geometry,
    next: u32,
}

impl Allocator<'_> {
    fn take(&mut self) -> Result<u32, Ext3Error> {
        let group = self.next / BLOCKS_PER_GROUP;
        if group >= self.geometry.groups {
            return Err(Ext3Error::NoRoom);
        }
        let data = self.geometry.first(group) + self.geometry.overhead(group);
        let block = self.next.max(data);
        if block >= self.geometry.first(group) + self.geometry.length(group) {
            return Err(Ext3Error::NoRoom);
        }
        // Never past the last block, whose number fits.
        self.next = block + 1;
        Ok(block)
    }

    /// How many blocks at the beginning of a group are taken.
    fn taken(&self, group: u32) -> u32 {
        let first = self.geometry.first(group);
        let data = self.next.saturating_sub(first).min(self.geometry.length(group));
        data.max(self.geometry.overhead(group))
    }
}

/// Everything, before the first byte is written.
struct Ext3Plan<'a> {
    geometry: &'a Geometry,
    overlay: &'a Ext3Overlay,
    time: u32,
    /// Inodes by number; and blocks of data by number.
    inodes: Vec<(u32, Ext3Inode)>,
    blocks: Vec<(u32, Vec<u8>)>,
    journal: BlockMap,
    taken: Allocator<'a>,
    directories: u16,
}

impl<'a> Ext3Plan<'a> {
    fn of(
        geometry: &'a Geometry,
        overlay: &'a Ext3Overlay,
        tree: &OverlayTree,
    ) -> Result<Ext3Plan<'a>, Ext3Error> {
        let mut plan = Ext3Plan {
            geometry,
            overlay,
            time: overlay.created.clamp(0, i64::from(i32::MAX)) as u32,
            inodes: Vec::new(),
            blocks: Vec::new(),
            journal: BlockMap::default(),
            taken: Allocator { geometry, next: 0 },
            directories: tree.0.len() as u16,
        };
        for directory in &tree.0 {
            plan.directory(directory)?;
        }
        plan.room_to_grow()?;
        plan.journal()?;
        Ok(plan)
    }

    fn directory(&mut self, directory: &OverlayDirectory) -> Result<(), Ext3Error> {
        let content = directory.blocks();
        let map = BlockMap::of((content.len() / BLOCK) as u32, || self.taken.take())?;
        let mode = if directory.inode == LOST_AND_FOUND { 0o700 } else { 0o755 };
        let inode = Ext3Inode {
            mode: DIRECTORY | mode,
            owner: self.overlay.owner,
            size: content.len() as u64,
            time: self.time,
            links: directory.links(),
            blocks: map.blocks(),
            pointers: map.pointers,
        };
        self.inodes.push((directory.inode, inode));
        let blocks = content.chunks(BLOCK).map(<[u8]>::to_vec);
        self.blocks.extend(map.data.iter().copied().zip(blocks));
        self.blocks.extend(map.indirect);
        Ok(())
    }

    /// The inode that owns the blocks kept for more group descriptors, in all groups: a double
    /// indirect block points to those in the first group, each of those to its copies
    /// (e2fsprogs: `ext2fs_create_resize_inode`).
    fn room_to_grow(&mut self) -> Result<(), Ext3Error> {
        let geometry = self.geometry;
        let double = self.taken.take()?;
        let first = 1 + geometry.descriptors;
        let kept: Vec<_> = (first..first + geometry.reserved).collect();
        let mut pointers = vec![0; BLOCK / 4];
        for (at, block) in (geometry.descriptors as usize..).zip(&kept) {
            pointers[at % (BLOCK / 4)] = *block;
        }
        let copies: Vec<_> = (1..geometry.groups).filter(|group| has_super(*group)).collect();
        for block in &kept {
            let copies = copies.iter().map(|group| block + geometry.first(*group));
            self.blocks.push((*block, block_of(&copies.collect::<Vec<_>>())));
        }
        let map = BlockMap::double(double, &pointers);
        let block_numbers = (BLOCK / 4) as u64;
        let inode = Ext3Inode {
            mode: FILE | 0o600,
            owner: (0, 0),
            // All that direct, indirect and double indirect blocks can map.
            size: (12 + block_numbers + block_numbers * block_numbers) * BLOCK as u64,
            time: self.time,
            links: 1,
            blocks: 1 + geometry.reserved * (1 + copies.len() as u32),
            pointers: map.pointers,
        };
        self.inodes.push((RESIZE_INODE, inode));
        self.blocks.extend(map.indirect);
        Ok(())
    }

    fn journal(&mut self) -> Result<(), Ext3Error> {
        let map = BlockMap::of(self.geometry.journal, || self.taken.take())?;
        let inode = Ext3Inode {
            mode: FILE | 0o600,
            owner: (0, 0),
            size: self.journal_size(),
            time: self.time,
            links: 1,
            blocks: map.blocks(),
            pointers: map.pointers,
        };
        self.inodes.push((JOURNAL_INODE, inode));
        let head = journal_head(self.geometry.journal, &self.uuid());
        self.blocks.extend(map.data.first().map(|first| (*first, head)));
        self.blocks.extend(map.indirect.iter().cloned());
        self.journal = map;
        Ok(())
    }

    fn journal_size(&self) -> u64 {
        u64::from(self.geometry.journal) * BLOCK as u64
    }

    fn write(&self, out: &File) -> io::Result<()> {
        let write = |block: u32, bytes: &[u8]| out.write_all_at(bytes, place(block));
        for (block, bytes) in &self.blocks {
            write(*block, bytes)?;
        }
        let table = place(self.geometry.bitmaps(0) + 2);
        for (number, inode) in &self.inodes {
            let at = table + u64::from(number - 1) * INODE as u64;
            out.write_all_at(&inode.bytes(), at)?;
        }
        let mut descriptors = Vec::new();
        for group in 0..self.geometry.groups {
            write(self.geometry.bitmaps(group), &self.bitmaps(group))?;
            descriptors.extend(self.descriptor(group));
        }
        let superblock = self.superblock();
        for group in (0..self.geometry.groups).filter(|group| has_super(*group)) {
            let first = self.geometry.first(group);
            // The first group's is behind room for a boot sector.
            let at = if group == 0 { PLACE } else { place(first) };
            out.write_all_at(&superblock.bytes(group), at)?;
            write(first + 1, &descriptors)?;
        }
        Ok(())
    }

    /// Both of a group, one block each: a bit for each block and inode that is taken, and for
    /// each that there is none.
    fn bitmaps(&self, group: u32) -> Vec<u8> {
        let mut bits = vec![0; 2 * BLOCK];
        let (blocks, inodes) = bits.split_at_mut(BLOCK);
        fill(blocks, 0..self.taken.taken(group));
        fill(blocks, self.geometry.length(group)..BLOCKS_PER_GROUP);
        fill(inodes, 0..self.inodes_taken(group));
        fill(inodes, self.geometry.inodes_per_group..BLOCKS_PER_GROUP);
        bits
    }

    /// The first ten are reserved, the others are the directories' but the root's.
    fn inodes_taken(&self, group: u32) -> u32 {
        if group == 0 { LOST_AND_FOUND - 1 + u32::from(self.directories) - 1 } else { 0 }
    }

    fn descriptor(&self, group: u32) -> [u8; 32] {
        let bitmaps = self.geometry.bitmaps(group);
        let free_blocks = self.geometry.length(group) - self.taken.taken(group);
        let free_inodes = self.geometry.inodes_per_group - self.inodes_taken(group);
        let directories = if group == 0 { self.directories } else { 0 };
        let mut bytes = [0; 32];
        bytes[..12]
            .copy_from_slice(&[bitmaps, bitmaps + 1, bitmaps + 2].map(u32::to_le_bytes).concat());
        // Neither is more than a block has bits.
        let counts = [free_blocks as u16, free_inodes as u16, directories];
        bytes[12..18].copy_from_slice(&counts.map(u16::to_le_bytes).concat());
        bytes
    }

    fn superblock(&self) -> Ext3Superblock<'_> {
        let groups = 0..self.geometry.groups;
        let sum = |of: &dyn Fn(u32) -> u32| groups.clone().map(of).sum::<u32>();
        Ext3Superblock {
            geometry: self.geometry,
            free_blocks: self.geometry.blocks - sum(&|group| self.taken.taken(group)),
            free_inodes: self.geometry.inodes() - self.inodes_taken(0),
            overhead: sum(&|group| self.geometry.overhead(group)) + self.geometry.journal,
            uuid: self.uuid(),
            hash_seed: self.number("seed"),
            time: self.time,
            journal: (self.journal.pointers, self.journal_size()),
        }
    }

    fn uuid(&self) -> [u8; 16] {
        self.number("uuid")
    }

    /// A number made from all that is wanted: the same wishes make the same image.
    fn number(&self, what: &str) -> [u8; 16] {
        let Ext3Overlay { size, owner, directories, created, sparse: _ } = self.overlay;
        let wishes = format!("becalm ext3 {what} {size} {owner:?} {directories:?} {created}");
        crate::sif::uuid(Sha256::new_with_prefix(wishes))
    }
}

fn place(block: u32) -> u64 {
    u64::from(block) * BLOCK as u64
}

/// Sets a range of bits.
fn fill(bits: &mut [u8], range: std::ops::Range<u32>) {
    for bit in range {
        bits[(bit / 8) as usize] |= 1 << (bit % 8);
    }
}

/// The first block of an empty journal, in big-endian (the kernel's include/linux/jbd2.h,
/// `journal_superblock_s`).
fn journal_head(blocks: u32, uuid: &[u8; 16]) -> Vec<u8> {
    const MAGIC: u32 = 0xc03b_3998;
    const SUPERBLOCK_V2: u32 = 4;
    // Magic, kind, sequence; block size, blocks, first block of the log, first sequence; the log
    // starts nowhere, as it is empty; no error, no features.
    let fields = [MAGIC, SUPERBLOCK_V2, 0, BLOCK as u32, blocks, 1, 1, 0, 0, 0, 0, 0];
    let mut head = fields.map(u32::to_be_bytes).concat();
    head.extend(uuid);
    head.extend(1_u32.to_be_bytes());
    head.resize(BLOCK, 0);
    head
}
