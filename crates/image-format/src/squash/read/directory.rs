//! Listings of directories.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::cursor::Cursor;
use super::node::{InodeContent, SquashInode};
use super::{NodeKind, SquashImage, SquashNode, SquashReadError};
use crate::squash::format::{ENTRIES_PER_HEADER, LISTING_EXTRA, METADATA};

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SquashEntry {
    /// The name: not empty, without slashes, not `.` and not `..`.
    pub name: Vec<u8>,
    /// What has it.
    pub node: SquashNode,
    /// What that is.
    pub kind: NodeKind,
    /// Where to go on after it: see [`SquashImage::list`].
    pub after: ListingPosition,
}

/// A place in a listing: 0 is its start. It stays valid as long as the image does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListingPosition(pub u64);

/// Bits of a mark for the entry below its header; the others are the header's offset.
const ENTRY_BITS: u32 = 9;

/// A listing while it is read.
struct ListingReader<'a> {
    at: Cursor<'a>,
    /// Bytes that are read, and that there are.
    read: u64,
    length: u64,
}

/// What stands before entries.
struct ListingHeader {
    entries: u32,
    block: u32,
}

/// An entry before it is checked.
struct Raw {
    offset: u16,
    kind: u16,
    name: Vec<u8>,
}

impl SquashImage {
    /// What has a name in a directory.
    ///
    /// # Errors
    /// Where it is no directory, or the image is damaged.
    pub fn lookup(
        &self,
        directory: SquashNode,
        name: &[u8],
    ) -> Result<Option<SquashNode>, SquashReadError> {
        let (inode, index) = self.inode(directory)?;
        let from = nearest(&inode, index, |_, first| first <= name)?;
        let mut found = None;
        self.entries(&inode, from, ListingPosition::default(), &mut |entry| {
            // Names are in order.
            if *entry.name < *name {
                return ControlFlow::Continue(());
            }
            found = (entry.name == name).then_some(entry.node);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// What a path leads to, by its names from the root on; no symbolic link is followed. None where
    /// there is nothing, or something on the way is no directory.
    ///
    /// # Errors
    /// Where the image is damaged.
    pub fn find(&self, path: &Path) -> Result<Option<SquashNode>, SquashReadError> {
        let mut node = self.root();
        for name in path.strip_prefix("/").unwrap_or(path) {
            match self.lookup(node, name.as_bytes()) {
                Ok(Some(found)) => node = found,
                Ok(None) | Err(SquashReadError::IsNo(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(node))
    }

    /// Calls `each` with the names in a directory, in the order of their bytes, from a mark on,
    /// until it has enough.
    ///
    /// # Errors
    /// Where it is no directory, or the image is damaged.
    pub fn list(
        &self,
        directory: SquashNode,
        from: ListingPosition,
        each: &mut dyn FnMut(SquashEntry) -> ControlFlow<()>,
    ) -> Result<(), SquashReadError> {
        let (inode, index) = self.inode(directory)?;
        let header = nearest(&inode, index, |offset, _| u64::from(offset) <= from.0 >> ENTRY_BITS)?;
        self.entries(&inode, header, from, each)
    }

    /// The entries from a header on: its offset in the listing and, if known, its block.
    fn entries(
        &self,
        inode: &SquashInode,
        (offset, block): (u32, Option<u32>),
        after: ListingPosition,
        each: &mut dyn FnMut(SquashEntry) -> ControlFlow<()>,
    ) -> Result<(), SquashReadError> {
        let InodeContent::Directory { block: first, offset: start, .. } = inode.place else {
            return Err(SquashReadError::IsNo("directory"));
        };
        let length = inode.attributes.size.saturating_sub(u64::from(LISTING_EXTRA));
        if u64::from(offset) >= length {
            return Ok(());
        }
        let table = self.superblock.directory_table;
        let position = table + u64::from(block.unwrap_or(first));
        // An index names the block that the header is in; the offset there follows from the
        // listing's own start.
        let within = (u64::from(start) + u64::from(offset)) as usize % METADATA;
        let at = Cursor::new(self, position, within, self.superblock.bytes_used)?;
        let mut listing = ListingReader { at, read: u64::from(offset), length };
        while listing.read < listing.length {
            let header_at = listing.read;
            let header = listing.header()?;
            for number in 1..=header.entries {
                let raw = listing.entry()?;
                let mark = ListingPosition(header_at << ENTRY_BITS | u64::from(number));
                if mark.0 <= after.0 {
                    continue;
                }
                let entry = raw.check(&header, mark, &listing)?;
                if each(entry).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The last header in the index of which something is true that is true of all before it, too:
/// its offset, and its block.
fn nearest(
    inode: &SquashInode,
    mut index: Cursor<'_>,
    is_before: impl Fn(u32, &[u8]) -> bool,
) -> Result<(u32, Option<u32>), SquashReadError> {
    let InodeContent::Directory { indexes, .. } = inode.place else {
        return Err(SquashReadError::IsNo("directory"));
    };
    let mut nearest = (0, None);
    for _ in 0..indexes {
        let (offset, block, length) = (index.u32()?, index.u32()?, index.u32()?);
        if length as usize >= ENTRIES_PER_HEADER {
            return SquashReadError::damaged("a name that is too long", index.near());
        }
        if !is_before(offset, &index.bytes(length as usize + 1)?) {
            break;
        }
        nearest = (offset, Some(block));
    }
    Ok(nearest)
}

impl ListingReader<'_> {
    fn header(&mut self) -> Result<ListingHeader, SquashReadError> {
        self.read += 12;
        let entries = self.at.u32()?;
        let (block, _number) = (self.at.u32()?, self.at.u32()?);
        if entries as usize >= ENTRIES_PER_HEADER {
            return SquashReadError::damaged("a listing with an absurd header", self.at.near());
        }
        Ok(ListingHeader { entries: entries + 1, block })
    }

    fn entry(&mut self) -> Result<Raw, SquashReadError> {
        let (offset, _number) = (self.at.u16()?, self.at.u16()?);
        let (kind, length) = (self.at.u16()?, usize::from(self.at.u16()?) + 1);
        self.read += 8 + length as u64;
        if length > ENTRIES_PER_HEADER || self.read > self.length {
            return SquashReadError::damaged("a listing longer than it says", self.at.near());
        }
        Ok(Raw { offset, kind, name: self.at.bytes(length)? })
    }
}

impl Raw {
    fn check(
        self,
        header: &ListingHeader,
        after: ListingPosition,
        at: &ListingReader<'_>,
    ) -> Result<SquashEntry, SquashReadError> {
        let is_name = self.name != b"."
            && self.name != b".."
            && !self.name.iter().any(|byte| matches!(byte, b'/' | 0));
        match NodeKind::from_number(self.kind) {
            Some(kind) if is_name => {
                let node = SquashNode(u64::from(header.block) << 16 | u64::from(self.offset));
                Ok(SquashEntry { name: self.name, node, kind, after })
            }
            _ => SquashReadError::damaged("a name that no file can have", at.at.near()),
        }
    }
}
