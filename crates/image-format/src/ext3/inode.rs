//! An inode, and the map from a file's blocks to the filesystem's (ext4(5), "direct/indirect").

use super::geometry::{BLOCK, INODE, POINTERS};

const DIRECT: usize = 12;
/// Where the map's indirect blocks are.
const SINGLE: usize = 12;
const DOUBLE: usize = 13;

/// Modes.
pub const DIRECTORY: u16 = 0o040_000;
pub const FILE: u16 = 0o100_000;

/// Bytes of an inode's fields beyond the first 128 that ext3 knew.
pub const EXTRA: u16 = 32;

/// A file's place: its map, the indirect blocks that belong to it, and what it takes up.
#[derive(Clone, Debug, Default)]
pub struct BlockMap {
    /// The map in the inode.
    pub pointers: [u32; 15],
    /// Blocks of pointers: number and content.
    pub indirect: Vec<(u32, Vec<u8>)>,
    /// All its blocks of data.
    pub data: Vec<u32>,
}

impl BlockMap {
    /// `count` blocks from `allocate`, with indirect ones where they are needed.
    pub fn of<E>(count: u32, mut allocate: impl FnMut() -> Result<u32, E>) -> Result<BlockMap, E> {
        let mut map = BlockMap::default();
        let mut left = count as usize;
        for pointer in map.pointers.iter_mut().take(left.min(DIRECT)) {
            *pointer = allocate()?;
            map.data.push(*pointer);
            left -= 1;
        }
        if left > 0 {
            map.pointers[SINGLE] = map.single(&mut left, &mut allocate)?;
        }
        if left > 0 {
            let block = allocate()?;
            let mut pointers = Vec::new();
            while left > 0 {
                pointers.push(map.single(&mut left, &mut allocate)?);
            }
            map.pointers[DOUBLE] = block;
            map.indirect.push((block, block_of(&pointers)));
        }
        Ok(map)
    }

    /// A map with nothing but a double indirect block.
    pub fn double(block: u32, pointers: &[u32]) -> BlockMap {
        let mut map = BlockMap::default();
        map.pointers[DOUBLE] = block;
        map.indirect.push((block, block_of(pointers)));
        map
    }

    /// An indirect block, and the data that it points to.
    fn single<E>(
        &mut self,
        left: &mut usize,
        allocate: &mut impl FnMut() -> Result<u32, E>,
    ) -> Result<u32, E> {
        let block = allocate()?;
        let mut pointers = Vec::new();
        while *left > 0 && pointers.len() < POINTERS as usize {
            pointers.push(allocate()?);
            *left -= 1;
        }
        self.data.extend(&pointers);
        self.indirect.push((block, block_of(&pointers)));
        Ok(block)
    }

    /// How many blocks it takes up.
    pub fn blocks(&self) -> u32 {
        (self.data.len() + self.indirect.len()) as u32
    }
}

/// A block of pointers.
pub fn block_of(pointers: &[u32]) -> Vec<u8> {
    let mut block: Vec<u8> = pointers.iter().flat_map(|pointer| pointer.to_le_bytes()).collect();
    block.resize(BLOCK, 0);
    block
}

/// What an inode says.
#[derive(Clone, Copy, Debug)]
pub struct Ext3Inode {
    /// Type and permissions.
    pub mode: u16,
    /// User and group.
    pub owner: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// All its times, in seconds since 1970.
    pub time: u32,
    /// How many names lead to it.
    pub links: u16,
    /// Blocks that it takes up, of the filesystem's size.
    pub blocks: u32,
    /// The map in it.
    pub pointers: [u32; 15],
}

impl Ext3Inode {
    /// Its bytes (ext4(5), "struct ext4_inode").
    pub fn bytes(&self) -> [u8; INODE] {
        let mut bytes = [0; INODE];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        let (user, group) = self.owner;
        let sectors = self.blocks * (BLOCK as u32 / 512);
        put(0, &self.mode.to_le_bytes());
        put(2, &user.to_le_bytes()[..2]);
        put(4, &self.size.to_le_bytes()[..4]);
        for time in [8, 12, 16, 144] {
            put(time, &self.time.to_le_bytes());
        }
        put(24, &group.to_le_bytes()[..2]);
        put(26, &self.links.to_le_bytes());
        put(28, &sectors.to_le_bytes());
        put(40, &self.pointers.map(u32::to_le_bytes).concat());
        put(108, &self.size.to_le_bytes()[4..]);
        put(120, &user.to_le_bytes()[2..]);
        put(122, &group.to_le_bytes()[2..]);
        put(128, &EXTRA.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_of_a_large_file_is_mapped_once() {
        let mut next = 0;
        let mut allocate = || -> Result<u32, ()> {
            next += 1;
            Ok(next)
        };
        let count = 12 + 1024 + 3 * 1024 + 5;
        let map = BlockMap::of(count, &mut allocate).unwrap();
        assert_eq!(map.data.len(), count as usize);
        // One single, one double, four below it.
        assert_eq!(map.indirect.len(), 6);
        assert_eq!(map.blocks(), next);
    }
}
