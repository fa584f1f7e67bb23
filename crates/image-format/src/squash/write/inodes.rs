//! The tables of inodes and listings.
//!
//! The inodes of what is in one directory lie side by side, in the order of the names: listing a
//! directory, or finding files in it, then reads few blocks of metadata. A directory's inode says
//! where its listing is, and a listing says where inodes are; so the deepest directory comes first.

use std::collections::{HashMap, HashSet};

use super::place::{ContentPosition, StoredContent};
use super::table::{Metadata, MetadataPosition};
use super::xattrs::XattrSets;
use crate::SquashWriteError;
use crate::squash::format::{
    ENTRIES_PER_HEADER, LISTING_EXTRA, METADATA, NAME_MAX, NONE_U32, kind,
};
use crate::tree::{FileNode, FileNodeId, FileNodeKind, FileTree, seconds};

/// What all inodes are made of.
pub(crate) struct InodeSources<'a> {
    pub tree: &'a FileTree,
    pub stored: &'a StoredContent,
    /// The time of directories that are only there to hold what is packed.
    pub made: u32,
}

/// Writes both tables.
pub(crate) struct Tables<'a> {
    from: InodeSources<'a>,
    inodes: Metadata<'a>,
    listings: Metadata<'a>,
    xattrs: XattrSets,
    ids: Ids,
    /// Files that are left out, by their first names.
    left_out: HashSet<FileNodeId>,
    /// Inode numbers, by first names: from 1, in the order in which inodes are written.
    numbers: HashMap<FileNodeId, u32>,
    /// How many names a file has in the image, by its first.
    names: HashMap<FileNodeId, u32>,
    /// Inodes that are written, in the order of their numbers.
    places: Vec<MetadataPosition>,
    /// Listings that are written, by directory.
    listed: HashMap<FileNodeId, ListingWriter>,
}

/// Both tables as they go into the image, and what else is known then.
pub(crate) struct WrittenTables {
    pub inodes: Vec<u8>,
    pub listings: Vec<u8>,
    pub root: MetadataPosition,
    /// In the order of inode numbers.
    pub places: Vec<MetadataPosition>,
    /// Users and groups.
    pub ids: Vec<u32>,
    pub xattrs: XattrSets,
}

/// A listing that is written.
#[derive(Default)]
struct ListingWriter {
    place: MetadataPosition,
    /// Bytes.
    length: u32,
    index: Vec<Index>,
    directories: u32,
}

/// Where in a long listing a header is.
struct Index {
    /// Bytes from the start of the listing.
    offset: u32,
    /// The metadata block.
    block: u32,
    /// The first name after it.
    name: Vec<u8>,
}

/// Users and groups, by number.
#[derive(Default)]
struct Ids {
    list: Vec<u32>,
    numbers: HashMap<u32, u16>,
}

impl Ids {
    fn number(&mut self, id: u32) -> Result<u16, SquashWriteError> {
        if let Some(number) = self.numbers.get(&id) {
            return Ok(*number);
        }
        // The superblock counts them in 16 bits.
        let number = u16::try_from(self.list.len()).ok().filter(|number| *number < u16::MAX);
        let number = number.ok_or(SquashWriteError::TooMuch("users and groups"))?;
        self.list.push(id);
        self.numbers.insert(id, number);
        Ok(number)
    }
}

impl<'a> Tables<'a> {
    pub(crate) fn new(
        from: InodeSources<'a>,
        inodes: Metadata<'a>,
        listings: Metadata<'a>,
    ) -> Tables<'a> {
        let left_out = from.stored.unreadable.iter().copied().collect();
        Tables {
            from,
            inodes,
            listings,
            xattrs: XattrSets::default(),
            ids: Ids::default(),
            left_out,
            numbers: HashMap::new(),
            names: HashMap::new(),
            places: Vec::new(),
            listed: HashMap::new(),
        }
    }

    /// Writes all.
    pub(crate) fn write(mut self) -> Result<WrittenTables, SquashWriteError> {
        self.number()?;
        for (directory, children) in directories(self.from.tree) {
            let children: Vec<FileNodeId> = children
                .iter()
                .copied()
                .filter(|id| !self.left_out.contains(&self.first(*id)))
                .collect();
            for child in &children {
                let file = self.first(*child);
                if self.numbers[&file] as usize == self.places.len() + 1 {
                    self.inode(file)?;
                }
            }
            let listing = self.listing(&children)?;
            self.listed.insert(directory, listing);
        }
        self.inode(0)?;
        let root = self.places[self.places.len() - 1];
        Ok(WrittenTables {
            inodes: self.inodes.finish()?.0,
            listings: self.listings.finish()?.0,
            root,
            places: self.places,
            ids: self.ids.list,
            xattrs: self.xattrs,
        })
    }

    fn node(&self, id: FileNodeId) -> &'a FileNode {
        &self.from.tree.nodes[id as usize]
    }

    fn first(&self, id: FileNodeId) -> FileNodeId {
        self.node(id).first_name.unwrap_or(id)
    }

    /// Numbers all inodes, in the order in which they will be written.
    fn number(&mut self) -> Result<(), SquashWriteError> {
        let lists = directories(self.from.tree).flat_map(|(_, children)| children.iter().copied());
        for id in lists.chain([0]) {
            let file = self.first(id);
            if !self.left_out.contains(&file) {
                *self.names.entry(file).or_default() += 1;
                let next = self.numbers.len() as u32 + 1;
                self.numbers.entry(file).or_insert(next);
            }
        }
        Ok(())
    }

    /// Writes one inode.
    fn inode(&mut self, id: FileNodeId) -> Result<(), SquashWriteError> {
        let node = self.node(id);
        let xattrs = self.xattrs.number(&node.xattrs)?;
        let names = self.names.get(&id).copied().unwrap_or(1);
        let mut rest = Vec::new();
        let (basic, is_extended) = match &node.kind {
            FileNodeKind::Directory(_) => {
                let listing = self.listed.remove(&id).unwrap_or_default();
                let parent = self.numbers[&node.parent];
                (kind::DIRECTORY, directory(&mut rest, &listing, parent, xattrs)?)
            }
            FileNodeKind::File { size, .. } => {
                let nothing = ContentPosition::default();
                let placed = self.from.stored.files.get(&id).unwrap_or(&nothing);
                (kind::FILE, file(&mut rest, placed, *size, names, xattrs))
            }
            FileNodeKind::Symlink(target) => {
                put(&mut rest, &[names, target.len() as u32]);
                rest.extend_from_slice(target);
                (kind::SYMLINK, with_xattrs(&mut rest, xattrs))
            }
            FileNodeKind::CharDevice(number) => {
                put(&mut rest, &[names, *number]);
                (kind::CHAR_DEVICE, with_xattrs(&mut rest, xattrs))
            }
            FileNodeKind::BlockDevice(number) => {
                put(&mut rest, &[names, *number]);
                (kind::BLOCK_DEVICE, with_xattrs(&mut rest, xattrs))
            }
            FileNodeKind::Fifo => {
                put(&mut rest, &[names]);
                (kind::FIFO, with_xattrs(&mut rest, xattrs))
            }
            FileNodeKind::Socket => {
                put(&mut rest, &[names]);
                (kind::SOCKET, with_xattrs(&mut rest, xattrs))
            }
        };
        let attributes = &node.attributes;
        let mtime = if node.is_above { self.from.made } else { seconds(attributes.mtime.0) };
        let kind = if is_extended { basic + kind::EXTENDED } else { basic };
        let (user, group) = (self.ids.number(attributes.uid)?, self.ids.number(attributes.gid)?);
        let mut bytes = Vec::with_capacity(16 + rest.len());
        let mode = node.without_acl.unwrap_or(attributes.mode);
        for number in [kind, mode, user, group] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        put(&mut bytes, &[mtime, self.numbers[&id]]);
        bytes.append(&mut rest);
        self.places.push(self.inodes.place());
        self.inodes.put(&bytes)
    }

    /// Writes the listing of a directory whose inodes are written.
    fn listing(&mut self, children: &[FileNodeId]) -> Result<ListingWriter, SquashWriteError> {
        let mut listing =
            ListingWriter { place: self.listings.place(), ..ListingWriter::default() };
        let mut last_index = 0;
        let mut rest = children;
        while let Some((header, run)) = self.run(rest)? {
            let first = self.node(rest[0]);
            // A lookup reads at most a block or two beyond the header that the index names.
            if listing.length - last_index > METADATA as u32 {
                let block = u32::try_from(self.listings.place().block);
                let block = block.map_err(|_| SquashWriteError::TooMuch("names"))?;
                let name = first.name.clone();
                listing.index.push(Index { offset: listing.length, block, name });
                last_index = listing.length;
            }
            let mut bytes = header.encode(run.len());
            for child in run {
                let node = self.node(*child);
                if node.name.is_empty() || node.name.len() > NAME_MAX {
                    return Err(SquashWriteError::Unfit {
                        path: self.from.tree.source(*child),
                        why: "its name is too long",
                    });
                }
                listing.directories += u32::from(matches!(node.kind, FileNodeKind::Directory(_)));
                let number = self.numbers[&self.first(*child)];
                let difference = number.wrapping_sub(header.number) as u16;
                let place = self.place_of(*child);
                for number in
                    [place.offset, difference, basic(&node.kind), node.name.len() as u16 - 1]
                {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
                bytes.extend_from_slice(&node.name);
            }
            let length = u64::from(listing.length) + bytes.len() as u64;
            listing.length = u32::try_from(length + u64::from(LISTING_EXTRA))
                .map_err(|_| SquashWriteError::TooMuch("names in one directory"))?
                - LISTING_EXTRA;
            self.listings.put(&bytes)?;
            rest = &rest[run.len()..];
        }
        Ok(listing)
    }

    fn place_of(&self, child: FileNodeId) -> MetadataPosition {
        self.places[self.numbers[&self.first(child)] as usize - 1]
    }

    /// The entries that one header can stand for: their inodes are in one block, and have near
    /// numbers.
    fn run<'b>(
        &self,
        children: &'b [FileNodeId],
    ) -> Result<Option<(EntryHeader, &'b [FileNodeId])>, SquashWriteError> {
        let Some(first) = children.first() else { return Ok(None) };
        let block = self.place_of(*first).block;
        let number = self.numbers[&self.first(*first)];
        let fits = |child: &&FileNodeId| {
            let distance = i64::from(self.numbers[&self.first(**child)]) - i64::from(number);
            self.place_of(**child).block == block && i16::try_from(distance).is_ok()
        };
        let count = children.iter().take(ENTRIES_PER_HEADER).take_while(fits).count();
        let block = u32::try_from(block).map_err(|_| SquashWriteError::TooMuch("inodes"))?;
        Ok(Some((EntryHeader { block, number }, &children[..count])))
    }
}

/// The directories of a tree with what is in them, from the deepest up.
fn directories(tree: &FileTree) -> impl Iterator<Item = (FileNodeId, &[FileNodeId])> {
    (0..tree.nodes.len()).rev().filter_map(|id| match &tree.nodes[id].kind {
        FileNodeKind::Directory(children) => Some((id as FileNodeId, &children[..])),
        _ => None,
    })
}

/// What stands before entries of a listing.
struct EntryHeader {
    /// The block that the entries' inodes are in.
    block: u32,
    /// The inode number that the entries' are told from.
    number: u32,
}

impl EntryHeader {
    fn encode(&self, entries: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, &[entries as u32 - 1, self.block, self.number]);
        bytes
    }
}

/// The rest of a directory's inode; whether it is the extended one.
fn directory(
    rest: &mut Vec<u8>,
    listing: &ListingWriter,
    parent: u32,
    xattrs: u32,
) -> Result<bool, SquashWriteError> {
    let length = listing.length + LISTING_EXTRA;
    let names = listing.directories + 2;
    let block =
        u32::try_from(listing.place.block).map_err(|_| SquashWriteError::TooMuch("names"))?;
    if let Ok(length) = u16::try_from(length)
        && listing.index.is_empty()
        && xattrs == NONE_U32
    {
        put(rest, &[block, names]);
        rest.extend_from_slice(&length.to_le_bytes());
        rest.extend_from_slice(&listing.place.offset.to_le_bytes());
        put(rest, &[parent]);
        return Ok(false);
    }
    // The index helps lookups; a directory too large for a whole one has the start of it.
    let count = u16::try_from(listing.index.len()).unwrap_or(u16::MAX);
    put(rest, &[names, length, block, parent]);
    rest.extend_from_slice(&count.to_le_bytes());
    rest.extend_from_slice(&listing.place.offset.to_le_bytes());
    put(rest, &[xattrs]);
    for index in &listing.index[..usize::from(count)] {
        put(rest, &[index.offset, index.block, index.name.len() as u32 - 1]);
        rest.extend_from_slice(&index.name);
    }
    Ok(true)
}

/// The rest of a file's inode; whether it is the extended one.
fn file(rest: &mut Vec<u8>, placed: &ContentPosition, size: u64, names: u32, xattrs: u32) -> bool {
    let (fragment, offset) = placed.fragment.unwrap_or((NONE_U32, 0));
    let is_plain = names == 1 && xattrs == NONE_U32 && placed.sparse == 0;
    let is_extended = match (u32::try_from(placed.start), u32::try_from(size)) {
        (Ok(start), Ok(size)) if is_plain => {
            put(rest, &[start, fragment, offset, size]);
            false
        }
        _ => {
            for number in [placed.start, size, placed.sparse] {
                rest.extend_from_slice(&number.to_le_bytes());
            }
            put(rest, &[names, fragment, offset, xattrs]);
            true
        }
    };
    put(rest, &placed.blocks);
    is_extended
}

/// Ends an inode that is extended where it has xattrs.
fn with_xattrs(rest: &mut Vec<u8>, xattrs: u32) -> bool {
    if xattrs != NONE_U32 {
        put(rest, &[xattrs]);
    }
    xattrs != NONE_U32
}

fn basic(kind: &FileNodeKind) -> u16 {
    match kind {
        FileNodeKind::Directory(_) => kind::DIRECTORY,
        FileNodeKind::File { .. } => kind::FILE,
        FileNodeKind::Symlink(_) => kind::SYMLINK,
        FileNodeKind::CharDevice(_) => kind::CHAR_DEVICE,
        FileNodeKind::BlockDevice(_) => kind::BLOCK_DEVICE,
        FileNodeKind::Fifo => kind::FIFO,
        FileNodeKind::Socket => kind::SOCKET,
    }
}

fn put(bytes: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
}
