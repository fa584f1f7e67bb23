//! Where a file's blocks are: the map of ext2 and ext3, and the tree of extents of ext4 (ext4(5)).

use super::{Ext3, Ext3ReadError, Inode, u16_at, u32_at};

/// Blocks of a file that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first one's number in the file,
    pub at: u64,
    /// in the filesystem,
    pub block: u64,
    /// and how many they are.
    pub count: u64,
}

/// Direct pointers of a map.
const DIRECT: usize = 12;
const EXTENT_MAGIC: u16 = 0xf30a;
/// The deepest tree of extents.
const DEPTH: u16 = 5;
/// An extent longer than this is one that is not written yet, and so is nothing but zeros.
const WRITTEN: u16 = 32_768;

impl Ext3<'_> {
    /// Where a file's blocks are, in their order. What is between them is nothing but zeros.
    pub fn extents(&self, inode: &Inode) -> Result<Vec<Extent>, Ext3ReadError> {
        let mut found = Vec::new();
        if inode.has_extents {
            self.tree(inode, &inode.block, None, &mut found)?;
        } else {
            for (at, pointer) in inode.block.chunks_exact(4).enumerate() {
                let (at, pointer) = (at as u64, u32_at(pointer, 0));
                let per_block = self.block / 4;
                let (start, depth) = match at as usize {
                    0..DIRECT => (at, 0),
                    12 => (12, 1),
                    13 => (12 + per_block, 2),
                    _ => (12 + per_block + per_block * per_block, 3),
                };
                self.map(pointer, start, depth, &mut found)?;
            }
        }
        Ok(found)
    }

    fn map(
        &self,
        pointer: u32,
        at: u64,
        depth: u32,
        found: &mut Vec<Extent>,
    ) -> Result<(), Ext3ReadError> {
        if pointer == 0 {
            return Ok(());
        }
        if depth == 0 {
            return self.add(Extent { at, block: u64::from(pointer), count: 1 }, found);
        }
        let per_block = self.block / 4;
        let below = per_block.pow(depth - 1);
        let block = self.read_block(u64::from(pointer))?;
        for (index, pointer) in block.chunks_exact(4).enumerate() {
            self.map(u32_at(pointer, 0), at + index as u64 * below, depth - 1, found)?;
        }
        Ok(())
    }

    /// A node of a tree of extents; `depth` is what the one above it says.
    fn tree(
        &self,
        inode: &Inode,
        node: &[u8],
        depth: Option<u16>,
        found: &mut Vec<Extent>,
    ) -> Result<(), Ext3ReadError> {
        let wrong = Err(Ext3ReadError::Damaged("a tree of extents that is none"));
        let (count, own) = (u16_at(node, 2), u16_at(node, 6));
        let fits = 12 * (usize::from(count) + 1) <= node.len();
        let is_right = match depth {
            Some(depth) => own == depth,
            None => own <= DEPTH,
        };
        if u16_at(node, 0) != EXTENT_MAGIC || !fits || !is_right {
            return wrong;
        }
        for entry in node[12..].chunks_exact(12).take(usize::from(count)) {
            if own > 0 {
                let block = u64::from(u32_at(entry, 4)) | u64::from(u16_at(entry, 8)) << 32;
                let below = self.read_block(block)?;
                if let Some(sums) = inode.sums {
                    sums.extents(&below)?;
                }
                self.tree(inode, &below, Some(own - 1), found)?;
                continue;
            }
            let length = u16_at(entry, 4);
            if length <= WRITTEN {
                let block = u64::from(u32_at(entry, 8)) | u64::from(u16_at(entry, 6)) << 32;
                let (at, count) = (u64::from(u32_at(entry, 0)), u64::from(length));
                self.add(Extent { at, block, count }, found)?;
            }
        }
        Ok(())
    }

    fn add(&self, extent: Extent, found: &mut Vec<Extent>) -> Result<(), Ext3ReadError> {
        self.spend(extent.count)?;
        let end = extent.block.checked_add(extent.count);
        if end.is_none_or(|end| end > self.size / self.block) {
            return Err(Ext3ReadError::Damaged("a block beyond its end"));
        }
        match found.last_mut() {
            Some(last) if extent.at < last.at + last.count => {
                return Err(Ext3ReadError::Damaged("blocks of a file that are out of order"));
            }
            Some(last)
                if (last.at + last.count, last.block + last.count) == (extent.at, extent.block) =>
            {
                last.count += extent.count;
            }
            _ => found.push(extent),
        }
        Ok(())
    }
}
