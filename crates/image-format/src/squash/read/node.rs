//! Inodes: what stat(2) would say of a file, and where its content is.

use super::cursor::Cursor;
use super::{SquashImage, SquashReadError};
use crate::squash::format::{NONE_U32, kind};

/// A file or directory in an image, by the place of its inode. All names of a file have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SquashNode(pub(crate) u64);

impl SquashNode {
    /// A number for it as FUSE wants one: the root's is 1, none is 0.
    pub fn number(self, image: &SquashImage) -> u64 {
        if self == image.root() { 1 } else { self.0 + 2 }
    }

    /// The node that has this number. Whether there is one is only known when it is asked for
    /// something.
    pub fn from_number(number: u64, image: &SquashImage) -> SquashNode {
        if number <= 1 { image.root() } else { SquashNode(number - 2) }
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl NodeKind {
    pub(crate) fn from_number(number: u16) -> Option<NodeKind> {
        Some(match number {
            kind::DIRECTORY => NodeKind::Directory,
            kind::FILE => NodeKind::File,
            kind::SYMLINK => NodeKind::Symlink,
            kind::BLOCK_DEVICE => NodeKind::BlockDevice,
            kind::CHAR_DEVICE => NodeKind::CharDevice,
            kind::FIFO => NodeKind::Fifo,
            kind::SOCKET => NodeKind::Socket,
            _ => return None,
        })
    }
}

/// What stat(2) would say of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SquashAttributes {
    /// What it is.
    pub kind: NodeKind,
    /// Permissions, set-user-ID and sticky bits.
    pub mode: u16,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// When it was changed, in seconds since 1970.
    pub mtime: u32,
    /// The number of its inode, from 1.
    pub inode: u32,
    /// How many names it has; of a directory, as Linux counts them.
    pub names: u32,
    /// Bytes: of a file its content, of a symbolic link its target, of a directory its listing.
    pub size: u64,
    /// Bytes that a file needs, holes left out.
    pub stored: u64,
    /// Of a device, its number, as Linux encodes it in 32 bits (new_encode_dev).
    pub device: u32,
}

impl SquashAttributes {
    /// Of nothing: an empty file that is not there.
    pub const NONE: SquashAttributes = SquashAttributes {
        kind: NodeKind::File,
        mode: 0,
        uid: 0,
        gid: 0,
        mtime: 0,
        inode: 0,
        names: 0,
        size: 0,
        stored: 0,
        device: 0,
    };
}

/// An inode as it is in the image.
pub(crate) struct SquashInode {
    pub attributes: SquashAttributes,
    /// The number of its set of xattrs; `NONE_U32` for none.
    pub xattrs: u32,
    pub place: InodeContent,
}

/// Where the rest is.
pub(crate) enum InodeContent {
    File { start: u64, fragment: u32, offset: u32 },
    Directory { block: u32, offset: u16, indexes: u16 },
    Other,
}

impl SquashImage {
    /// What stat(2) would say of a node.
    ///
    /// # Errors
    /// Where the image cannot be read, or is damaged.
    pub fn attributes(&self, node: SquashNode) -> Result<SquashAttributes, SquashReadError> {
        Ok(self.inode(node)?.0.attributes)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// Where it is none, or the image is damaged.
    pub fn target(&self, node: SquashNode) -> Result<Vec<u8>, SquashReadError> {
        let (inode, mut rest) = self.inode(node)?;
        if inode.attributes.kind != NodeKind::Symlink {
            return Err(SquashReadError::IsNo("symbolic link"));
        }
        rest.bytes(inode.attributes.size as usize)
    }

    /// An inode, and a cursor on what follows its fixed part: blocks, an index, a target.
    pub(crate) fn inode(
        &self,
        node: SquashNode,
    ) -> Result<(SquashInode, Cursor<'_>), SquashReadError> {
        let (block, offset) = (node.0 >> 16, (node.0 & 0xffff) as usize);
        let table = self.superblock.inode_table;
        let end = self.superblock.directory_table;
        let Some(position) = table.checked_add(block).filter(|position| *position < end) else {
            return SquashReadError::damaged("an inode outside its table", table);
        };
        let mut at = Cursor::new(self, position, offset, end)?;
        let number = at.u16()?;
        let is_extended = number > kind::EXTENDED;
        let basic = if is_extended { number - kind::EXTENDED } else { number };
        let Some(kind) = NodeKind::from_number(basic) else {
            return SquashReadError::damaged("an inode of no known type", position);
        };
        let mode = at.u16()? & 0o7777;
        let (uid, gid) = (self.id(at.u16()?)?, self.id(at.u16()?)?);
        let (mtime, inode) = (at.u32()?, at.u32()?);
        let attributes = SquashAttributes {
            kind,
            mode,
            uid,
            gid,
            mtime,
            inode,
            names: 1,
            size: 0,
            stored: 0,
            device: 0,
        };
        let mut inode = SquashInode { attributes, xattrs: NONE_U32, place: InodeContent::Other };
        match kind {
            NodeKind::Directory => inode.directory(&mut at, is_extended)?,
            NodeKind::File => inode.file(&mut at, is_extended)?,
            NodeKind::Symlink => return self.symlink(inode, at, is_extended),
            _ => {
                inode.attributes.names = at.u32()?;
                if matches!(kind, NodeKind::BlockDevice | NodeKind::CharDevice) {
                    inode.attributes.device = at.u32()?;
                }
                if is_extended {
                    inode.xattrs = at.u32()?;
                }
            }
        }
        Ok((inode, at))
    }

    /// The number of xattrs of a symbolic link comes after its target.
    fn symlink<'a>(
        &'a self,
        mut inode: SquashInode,
        mut at: Cursor<'a>,
        is_extended: bool,
    ) -> Result<(SquashInode, Cursor<'a>), SquashReadError> {
        inode.attributes.names = at.u32()?;
        let size = at.u32()?;
        // Linux has none longer than PATH_MAX.
        if size > 4096 {
            return SquashReadError::damaged("a link's target that is too long", at.near());
        }
        inode.attributes.size = u64::from(size);
        inode.attributes.stored = u64::from(size);
        let rest = at.clone();
        if is_extended {
            at.bytes(size as usize)?;
            inode.xattrs = at.u32()?;
        }
        Ok((inode, rest))
    }
}

impl SquashInode {
    fn directory(&mut self, at: &mut Cursor<'_>, is_extended: bool) -> Result<(), SquashReadError> {
        let about = &mut self.attributes;
        if is_extended {
            about.names = at.u32()?;
            about.size = u64::from(at.u32()?);
            let block = at.u32()?;
            let _parent = at.u32()?;
            let (indexes, offset) = (at.u16()?, at.u16()?);
            self.xattrs = at.u32()?;
            self.place = InodeContent::Directory { block, offset, indexes };
        } else {
            let block = at.u32()?;
            about.names = at.u32()?;
            about.size = u64::from(at.u16()?);
            let offset = at.u16()?;
            let _parent = at.u32()?;
            self.place = InodeContent::Directory { block, offset, indexes: 0 };
        }
        Ok(())
    }

    fn file(&mut self, at: &mut Cursor<'_>, is_extended: bool) -> Result<(), SquashReadError> {
        let about = &mut self.attributes;
        if is_extended {
            let start = at.u64()?;
            about.size = at.u64()?;
            let sparse = at.u64()?;
            about.names = at.u32()?;
            let (fragment, offset) = (at.u32()?, at.u32()?);
            self.xattrs = at.u32()?;
            about.stored = about.size.saturating_sub(sparse);
            self.place = InodeContent::File { start, fragment, offset };
        } else {
            let start = u64::from(at.u32()?);
            let (fragment, offset) = (at.u32()?, at.u32()?);
            about.size = u64::from(at.u32()?);
            about.stored = about.size;
            self.place = InodeContent::File { start, fragment, offset };
        }
        // No file of Linux is larger (loff_t).
        if about.size > i64::MAX as u64 {
            return SquashReadError::damaged("a file larger than any", at.near());
        }
        Ok(())
    }
}
