//! The reader: for a FUSE server, and for files from anywhere.
//!
//! No number in an image is believed: each position is held against the image's end, each count
//! and length against what it may be, and nothing is allocated on the word of a number alone. A
//! damaged image gives an error; in time and memory it costs no more than a healthy one of its
//! size could.
//!
//! An [`SquashImage`] is shared by threads. Nodes are told by [`SquashNode`]; nothing has to be closed.
//!
//! | file | what it holds |
//! |---|---|
//! | `cache` | decompressed blocks, up to a number of bytes |
//! | `cursor` | metadata, and tables of it |
//! | `node` | inodes: attributes, targets of links |
//! | `directory` | listings and lookups |
//! | `content` | what is in files |
//! | `xattrs` | extended attributes |

mod cache;
mod content;
mod cursor;
mod directory;
mod error;
mod node;
mod xattrs;

use std::fs::File;
use std::io;
use std::path::Path;

pub use content::FileContent;
pub(crate) use content::MOST_BLOCKS;
pub use directory::{ListingPosition, SquashEntry};
pub use error::SquashReadError;
pub use node::{NodeKind, SquashAttributes, SquashNode};

use super::decompress::Decompression;
use super::format::{NONE_U64, SUPERBLOCK, SquashSuperblock};
use crate::source::{ReadAt, ReadWindow};
use cache::BlockCache;
use cursor::IndexedTable;
use xattrs::XattrTable;

/// Bytes of decompressed blocks that are kept, unless something else is asked for.
const KEPT: usize = 64 << 20;
/// The trailer begins at a multiple of this.
const TRAILER: u64 = 4096;

/// A squashfs image that is read.
pub struct SquashImage {
    source: Box<dyn ReadAt + Send + Sync>,
    superblock: SquashSuperblock,
    compression: Decompression,
    cache: BlockCache,
    /// Users and groups.
    ids: Vec<u32>,
    fragments: Option<IndexedTable>,
    xattrs: Option<XattrTable>,
}

/// What a superblock says, believed or not.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct SuperblockFacts {
    /// How it is compressed, as mksquashfs calls it.
    pub compression: &'static str,
    /// Bytes of a block of data.
    pub block_size: u32,
    /// Files, directories and links.
    pub inodes: u32,
    /// Blocks that small files share.
    pub fragments: u32,
    /// Users and groups.
    pub ids: u16,
    /// When it was made, in seconds since 1970.
    pub made: u32,
    /// Bytes of the image; the file may be longer.
    pub bytes: u64,
    /// Whether there is a table of xattrs.
    pub xattrs: bool,
    /// Whether there is a table from inode numbers to inodes.
    pub exportable: bool,
}

impl SuperblockFacts {
    /// What the superblock of an image says. Enough for one that cannot be read further.
    ///
    /// # Errors
    /// Where it cannot be read, or is none.
    pub fn of(source: &(impl ReadAt + ?Sized)) -> Result<SuperblockFacts, SquashReadError> {
        let superblock = superblock(source)?;
        Ok(SuperblockFacts {
            compression: name_of(superblock.compression),
            block_size: superblock.block_size,
            inodes: superblock.inodes,
            fragments: superblock.fragments,
            ids: superblock.ids,
            made: superblock.made,
            bytes: superblock.bytes_used,
            xattrs: superblock.xattr_table != NONE_U64,
            exportable: superblock.export_table != NONE_U64,
        })
    }
}

impl SquashImage {
    /// The image in a file.
    ///
    /// # Errors
    /// Where it cannot be read, is none, or is damaged.
    pub fn open_path(path: &Path) -> Result<SquashImage, SquashReadError> {
        SquashImage::new(Box::new(File::open(path)?), KEPT)
    }

    /// The image that lies in a part of a file, such as a partition of a SIF. It may not read
    /// beyond that.
    ///
    /// # Errors
    /// As [`SquashImage::open_path`].
    pub fn open_part(file: File, offset: u64, size: u64) -> Result<SquashImage, SquashReadError> {
        SquashImage::new(Box::new(FilePart { file, offset, size }), KEPT)
    }

    /// The image that these bytes are.
    ///
    /// # Errors
    /// As [`SquashImage::open_path`].
    pub fn of_bytes(bytes: Vec<u8>) -> Result<SquashImage, SquashReadError> {
        SquashImage::new(Box::new(bytes), KEPT)
    }

    /// An image that is read from anywhere, and keeps at most so many bytes of decompressed
    /// blocks.
    ///
    /// # Errors
    /// As [`SquashImage::open_path`].
    pub fn new(
        source: Box<dyn ReadAt + Send + Sync>,
        kept: usize,
    ) -> Result<SquashImage, SquashReadError> {
        let superblock = superblock(&*source)?;
        if superblock.bytes_used > source.size()? {
            return Err(SquashReadError::NotSquashfs("its end is missing"));
        }
        let compression = Decompression::from_number(superblock.compression);
        let compression =
            compression.ok_or(SquashReadError::Unsupported(name_of(superblock.compression)))?;
        let mut image = SquashImage {
            source,
            superblock,
            compression,
            cache: BlockCache::new(kept),
            ids: Vec::new(),
            fragments: None,
            xattrs: None,
        };
        image.tables()?;
        Ok(image)
    }

    fn tables(&mut self) -> Result<(), SquashReadError> {
        let superblock = self.superblock.clone();
        let ids = IndexedTable::new(self, superblock.id_table, 4, u64::from(superblock.ids))?;
        self.ids = (0..u64::from(superblock.ids))
            .map(|number| ids.entry(self, number)?.u32())
            .collect::<Result<_, _>>()?;
        if superblock.fragment_table != NONE_U64 && superblock.fragments > 0 {
            let count = u64::from(superblock.fragments);
            self.fragments = Some(IndexedTable::new(self, superblock.fragment_table, 16, count)?);
        }
        self.xattrs = XattrTable::of(self)?;
        match self.attributes(self.root())?.kind {
            NodeKind::Directory => Ok(()),
            _ => SquashReadError::damaged("a root that is no directory", superblock.inode_table),
        }
    }

    /// The root directory.
    pub fn root(&self) -> SquashNode {
        SquashNode(self.superblock.root)
    }

    /// Bytes of a block: reads of whole blocks cost least.
    pub fn block_size(&self) -> u32 {
        self.superblock.block_size
    }

    /// Where its tables begin: names, attributes, and where blocks lie. What is before them is
    /// content.
    pub fn tables_start(&self) -> u64 {
        let it = &self.superblock;
        it.inode_table.min(it.directory_table).min(it.fragment_table).min(it.id_table)
    }

    /// What its superblock says.
    ///
    /// # Errors
    /// Where it can no longer be read.
    pub fn facts(&self) -> Result<SuperblockFacts, SquashReadError> {
        SuperblockFacts::of(&*self.source)
    }

    /// What its file has behind the image: from the next multiple of 4 KiB on. Other readers of
    /// squashfs do not look there. None where there is nothing.
    ///
    /// # Errors
    /// Those of asking for the file's size.
    pub fn trailer(&self) -> io::Result<Option<ReadWindow<'_, dyn ReadAt + Send + Sync>>> {
        let start = self.superblock.bytes_used.next_multiple_of(TRAILER);
        match self.source.size()?.checked_sub(start) {
            None | Some(0) => Ok(None),
            Some(size) => ReadWindow::of(&*self.source, start, size),
        }
    }

    /// A user or group by its number in the image.
    fn id(&self, number: u16) -> Result<u32, SquashReadError> {
        match self.ids.get(usize::from(number)) {
            Some(id) => Ok(*id),
            None => SquashReadError::damaged(
                "a user that is not in its table",
                self.superblock.id_table,
            ),
        }
    }

    /// Reads what the image has at a position, as it is.
    fn read_exact(&self, position: u64, buffer: &mut [u8]) -> Result<(), SquashReadError> {
        match position.checked_add(buffer.len() as u64) {
            Some(end) if end <= self.superblock.bytes_used => {
                Ok(self.source.read_exact_at(buffer, position)?)
            }
            _ => SquashReadError::damaged("something beyond the image's end", position),
        }
    }
}

fn superblock(source: &(impl ReadAt + ?Sized)) -> Result<SquashSuperblock, SquashReadError> {
    let mut bytes = [0; SUPERBLOCK];
    match source.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(SquashReadError::NotSquashfs("it is too short"));
        }
        read => read?,
    }
    let superblock = SquashSuperblock::decode(&bytes).map_err(SquashReadError::NotSquashfs)?;
    // So that sums with positions in it never overflow.
    match superblock.bytes_used <= i64::MAX as u64 {
        true => Ok(superblock),
        false => Err(SquashReadError::NotSquashfs("its length is absurd")),
    }
}

fn name_of(compression: u16) -> &'static str {
    Decompression::from_number(compression).map_or("something unknown", Decompression::name)
}

/// A part of a file, as if it were all of it.
pub struct FilePart {
    /// The file.
    pub file: File,
    /// Where in it the part begins.
    pub offset: u64,
    /// Bytes of the part.
    pub size: u64,
}

impl ReadAt for FilePart {
    fn size(&self) -> io::Result<u64> {
        let after = ReadAt::size(&self.file)?.saturating_sub(self.offset);
        Ok(self.size.min(after))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        let start = offset.checked_add(self.offset);
        match (end, start) {
            (Some(end), Some(start)) if end <= self.size => {
                ReadAt::read_exact_at(&self.file, buffer, start)
            }
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
