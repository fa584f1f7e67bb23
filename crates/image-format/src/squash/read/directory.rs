//! Listings of directories.

use std::ops::ControlFlow;

use super::cursor::Cursor;
use super::node::{Inode, Place};
use super::{Image, NodeId, NodeKind, ReadError};
use crate::squash::format::{ENTRIES_PER_HEADER, LISTING_EXTRA, METADATA};

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name: not empty, without slashes, not `.` and not `..`.
    pub name: Vec<u8>,
    /// What has it.
    pub node: NodeId,
    /// What that is.
    pub kind: NodeKind,
    /// Where to go on after it: see [`Image::list`].
    pub after: Mark,
}

/// A place in a listing: 0 is its start. It stays valid as long as the image does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(pub u64);

/// Bits of a mark for the entry below its header; the others are the header's offset.
const ENTRY_BITS: u32 = 9;

/// A listing while it is read.
struct Listing<'a> {
    at: Cursor<'a>,
    /// Bytes that are read, and that there are.
    read: u64,
    length: u64,
}

/// What stands before entries.
struct Header {
    entries: u32,
    block: u32,
}

/// An entry before it is checked.
struct Raw {
    offset: u16,
    kind: u16,
    name: Vec<u8>,
}

impl Image {
    /// What has a name in a directory.
    ///
    /// # Errors
    /// Where it is no directory, or the image is damaged.
    pub fn lookup(&self, directory: NodeId, name: &[u8]) -> Result<Option<NodeId>, ReadError> {
        let (inode, index) = self.inode(directory)?;
        let from = nearest(&inode, index, |_, first| first <= name)?;
        let mut found = None;
        self.entries(&inode, from, Mark::default(), &mut |entry| {
            // Names are in order.
            if *entry.name < *name {
                return ControlFlow::Continue(());
            }
            found = (entry.name == name).then_some(entry.node);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Calls `each` with the names in a directory, in the order of their bytes, from a mark on,
    /// until it has enough.
    ///
    /// # Errors
    /// Where it is no directory, or the image is damaged.
    pub fn list(
        &self,
        directory: NodeId,
        from: Mark,
        each: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let (inode, index) = self.inode(directory)?;
        let header = nearest(&inode, index, |offset, _| u64::from(offset) <= from.0 >> ENTRY_BITS)?;
        self.entries(&inode, header, from, each)
    }

    /// The entries from a header on: its offset in the listing and, if known, its block.
    fn entries(
        &self,
        inode: &Inode,
        (offset, block): (u32, Option<u32>),
        after: Mark,
        each: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let Place::Directory { block: first, offset: start, .. } = inode.place else {
            return Err(ReadError::IsNo("directory"));
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
        let mut listing = Listing { at, read: u64::from(offset), length };
        while listing.read < listing.length {
            let header_at = listing.read;
            let header = listing.header()?;
            for number in 1..=header.entries {
                let raw = listing.entry()?;
                let mark = Mark(header_at << ENTRY_BITS | u64::from(number));
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
    inode: &Inode,
    mut index: Cursor<'_>,
    is_before: impl Fn(u32, &[u8]) -> bool,
) -> Result<(u32, Option<u32>), ReadError> {
    let Place::Directory { indexes, .. } = inode.place else {
        return Err(ReadError::IsNo("directory"));
    };
    let mut nearest = (0, None);
    for _ in 0..indexes {
        let (offset, block, length) = (index.u32()?, index.u32()?, index.u32()?);
        if length as usize >= ENTRIES_PER_HEADER {
            return ReadError::damaged("a name that is too long", index.near());
        }
        if !is_before(offset, &index.bytes(length as usize + 1)?) {
            break;
        }
        nearest = (offset, Some(block));
    }
    Ok(nearest)
}

impl Listing<'_> {
    fn header(&mut self) -> Result<Header, ReadError> {
        self.read += 12;
        let entries = self.at.u32()?;
        let (block, _number) = (self.at.u32()?, self.at.u32()?);
        if entries as usize >= ENTRIES_PER_HEADER {
            return ReadError::damaged("a listing with an absurd header", self.at.near());
        }
        Ok(Header { entries: entries + 1, block })
    }

    fn entry(&mut self) -> Result<Raw, ReadError> {
        let (offset, _number) = (self.at.u16()?, self.at.u16()?);
        let (kind, length) = (self.at.u16()?, usize::from(self.at.u16()?) + 1);
        self.read += 8 + length as u64;
        if length > ENTRIES_PER_HEADER || self.read > self.length {
            return ReadError::damaged("a listing longer than it says", self.at.near());
        }
        Ok(Raw { offset, kind, name: self.at.bytes(length)? })
    }
}

impl Raw {
    fn check(self, header: &Header, after: Mark, at: &Listing<'_>) -> Result<Entry, ReadError> {
        let is_name = self.name != b"."
            && self.name != b".."
            && !self.name.iter().any(|byte| matches!(byte, b'/' | 0));
        match NodeKind::from_number(self.kind) {
            Some(kind) if is_name => {
                let node = NodeId(u64::from(header.block) << 16 | u64::from(self.offset));
                Ok(Entry { name: self.name, node, kind, after })
            }
            _ => ReadError::damaged("a name that no file can have", at.at.near()),
        }
    }
}
