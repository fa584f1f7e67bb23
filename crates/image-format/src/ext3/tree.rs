//! The directories of a new filesystem: `lost+found`, `upper` with what is asked for below it, and
//! `work`, which is what a runtime expects in an overlay image.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use super::Ext3Error;
use super::geometry::BLOCK;

/// The root's inode.
pub const ROOT: u32 = 2;
/// The inode of `lost+found`, the first that is not reserved.
pub const LOST_AND_FOUND: u32 = 11;
/// Blocks of `lost+found`: e2fsck needs room there when it has none to make.
pub const LOST_AND_FOUND_BLOCKS: usize = 4;

/// As many directories as anyone writes on a command line.
const MOST_DIRECTORIES: usize = 1000;
/// Longest name in a directory.
const LONGEST_NAME: usize = 255;
/// A directory's type, in its entry.
const DIRECTORY: u8 = 2;

/// A directory.
pub struct OverlayDirectory {
    /// Its inode.
    pub inode: u32,
    parent: u32,
    /// What is in it: names and inodes.
    pub entries: BTreeMap<Vec<u8>, u32>,
}

/// All directories, by inode number: the root, then `lost+found`, then the others.
pub struct OverlayTree(pub Vec<OverlayDirectory>);

impl OverlayTree {
    /// The directories of an overlay, and `create`, with all above them, below `upper`.
    pub fn of_overlay(create: &[impl AsRef<Path>]) -> Result<OverlayTree, Ext3Error> {
        let root = OverlayDirectory { inode: ROOT, parent: ROOT, entries: BTreeMap::new() };
        let mut tree = OverlayTree(vec![root]);
        tree.directory(0, b"lost+found")?;
        let upper = tree.directory(0, b"upper")?;
        tree.directory(0, b"work")?;
        for path in create {
            let path = path.as_ref();
            let mut at = upper;
            for component in path.components() {
                match component {
                    Component::Normal(name) => at = tree.directory(at, name.as_bytes())?,
                    Component::RootDir | Component::CurDir => {}
                    _ => return Err(Ext3Error::NotBelowUpper(path.to_owned())),
                }
            }
        }
        Ok(tree)
    }

    /// The directory of this name in another, made if it is not there. Both by their place in the
    /// list.
    fn directory(&mut self, parent: usize, name: &[u8]) -> Result<usize, Ext3Error> {
        if name.len() > LONGEST_NAME {
            return Err(Ext3Error::LongName(OsStr::from_bytes(name).into()));
        }
        if let Some(inode) = self.0[parent].entries.get(name) {
            return Ok(place(*inode));
        }
        if self.0.len() == MOST_DIRECTORIES {
            return Err(Ext3Error::TooManyDirectories(MOST_DIRECTORIES));
        }
        let inode = LOST_AND_FOUND + self.0.len() as u32 - 1;
        let above = &mut self.0[parent];
        above.entries.insert(name.to_owned(), inode);
        let parent = above.inode;
        self.0.push(OverlayDirectory { inode, parent, entries: BTreeMap::new() });
        Ok(self.0.len() - 1)
    }
}

/// Where the directory of an inode is in the list.
fn place(inode: u32) -> usize {
    if inode == ROOT { 0 } else { (inode - LOST_AND_FOUND) as usize + 1 }
}

impl OverlayDirectory {
    /// How many names lead to it: its own, its `.`, and the `..` of each directory in it.
    pub fn links(&self) -> u16 {
        2 + self.entries.len() as u16
    }

    /// Its content, in whole blocks (ext4(5): linear directories).
    pub fn blocks(&self) -> Vec<u8> {
        let dots = [(b".".as_slice(), self.inode), (b"..".as_slice(), self.parent)];
        let entries = self.entries.iter().map(|(name, inode)| (name.as_slice(), *inode));
        let mut blocks = Vec::new();
        // Where the last entry begins: the one that reaches to its block's end.
        let mut last = 0;
        for (name, inode) in dots.into_iter().chain(entries) {
            let length = 8 + name.len().next_multiple_of(4);
            if blocks.len() % BLOCK + length > BLOCK {
                end_block(&mut blocks, last);
            }
            last = blocks.len();
            entry(&mut blocks, inode, name, length);
        }
        end_block(&mut blocks, last);
        if self.inode == LOST_AND_FOUND {
            while blocks.len() < LOST_AND_FOUND_BLOCKS * BLOCK {
                let last = blocks.len();
                entry(&mut blocks, 0, b"", 8);
                end_block(&mut blocks, last);
            }
        }
        blocks
    }
}

fn entry(blocks: &mut Vec<u8>, inode: u32, name: &[u8], length: usize) {
    let start = blocks.len();
    blocks.extend(inode.to_le_bytes());
    blocks.extend((length as u16).to_le_bytes());
    // An entry of no inode has no type either.
    blocks.extend([name.len() as u8, if inode == 0 { 0 } else { DIRECTORY }]);
    blocks.extend(name);
    blocks.resize(start + length, 0);
}

/// Lets the entry at `last` reach to the end of its block.
fn end_block(blocks: &mut Vec<u8>, last: usize) {
    let end = blocks.len().next_multiple_of(BLOCK);
    if let Some(length) = blocks.get_mut(last + 4..last + 6) {
        length.copy_from_slice(&((end - last) as u16).to_le_bytes());
    }
    blocks.resize(end, 0);
}
