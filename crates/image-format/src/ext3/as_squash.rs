//! An ext2, ext3 or ext4 filesystem, shown as a squashfs: what serves those to an ordinary user serves it,
//! too. The kernel mounts ext3 for root alone.
//!
//! Its names and attributes are read once, and become the squashfs's tables, in memory. Content stays
//! where it is: the tables say that it lies, as it is, in a first part of the squashfs, and what is
//! read there is read from the filesystem's blocks.
//!
//! Of an overlay (a directory `upper` beside a `work`) it shows what is in `upper`. What hides something
//! below it is told as the kernel's overlayfs has it in both its ways, an ordinary user's and root's.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};

use super::read::{Ext3, Ext3ReadError, Inode, ROOT};
use crate::source::ReadAt;
use crate::squash::{ContentPosition, MOST_BLOCKS, StoredContent, write_tables};
use crate::tree::{FileNode, FileNodeId, FileNodeKind, FileTree, ImageLayout, TreeAttributes};
use crate::{ImageWriter, SquashWriteError};

/// Bytes of a block of the squashfs.
const BLOCK: u32 = 128 << 10;
/// Said of a block that is stored as it is.
const STORED: u32 = 1 << 24;
/// Where content begins, behind the superblock.
const CONTENT: u64 = 96;
/// The longest target of a symbolic link that lies in its inode, and the longest at all.
const SHORT_TARGET: u64 = 60;
const LONG_TARGET: u64 = 4095;
/// What fuse-overlayfs puts before a name that is to be hidden, and its mark for a directory that hides
/// all that is below it.
const HIDDEN: &[u8] = b".wh.";
const HIDES_ALL: &[u8] = b".wh..wh..opq";
/// Where overlay filesystems keep their own marks.
const MARKS: [&[u8]; 3] = [b"trusted.overlay.", b"user.overlay.", b"user.fuseoverlayfs."];

/// A filesystem, as a squashfs that a [`SquashImage`](crate::squash::SquashImage) can be opened from.
pub struct Ext3AsSquash {
    source: Box<dyn ReadAt + Send + Sync>,
    /// Its superblock, and the tables behind the content. No file: whoever serves images keeps the
    /// descriptors of theirs, and no others.
    superblock: Vec<u8>,
    tables: Vec<u8>,
    /// Where content really is, by where it is said to be.
    runs: Vec<ContentRun>,
    /// Where content ends, and the squashfs.
    content_end: u64,
    size: u64,
}

/// Content that lies side by side in both.
struct ContentRun {
    at: u64,
    position: u64,
    length: u64,
}

impl Ext3AsSquash {
    /// Whether a source is one of these filesystems, by its magic number.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_in(source: &dyn ReadAt) -> io::Result<bool> {
        Ok(super::Ext3Facts::read(source)?.is_some())
    }

    /// Reads names and attributes of a filesystem.
    ///
    /// # Errors
    /// [`Ext3ReadError`]: one that was not unmounted cleanly, needs what is not known here, or is
    /// damaged.
    pub fn open(source: Box<dyn ReadAt + Send + Sync>) -> Result<Ext3AsSquash, Ext3ReadError> {
        let builder = TreeBuilder::of(&Ext3::open(&*source)?)?;
        let TreeBuilder { nodes, stored, runs, end, .. } = builder;
        let tree = FileTree {
            layout: ImageLayout::of_root(),
            stands_for: "/".into(),
            nodes,
            left_out: Vec::new(),
        };
        let tables = memfd_create(c"becalm-ext3", MemfdFlags::CLOEXEC).map_err(io::Error::from)?;
        let tables = File::from(tables);
        let mut out = ImageWriter::new(&tables, Path::new("tables of an ext3 image"), 0);
        out.leave_out(end)?;
        write_tables(&tree, &stored, BLOCK, &mut out)?;
        out.finish()?;
        let size = tables.metadata()?.len();
        let part = |from: u64, to: u64| -> io::Result<Vec<u8>> {
            let mut bytes = vec![0; (to - from) as usize];
            ReadAt::read_exact_at(&tables, &mut bytes, from)?;
            Ok(bytes)
        };
        let (superblock, tables) = (part(0, CONTENT)?, part(end, size)?);
        Ok(Ext3AsSquash { source, superblock, tables, runs, content_end: end, size })
    }

    /// Fills a part of the content.
    fn read_content(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        buffer.fill(0);
        let end = at + buffer.len() as u64;
        let first = self.runs.partition_point(|run| run.at + run.length <= at);
        for run in self.runs[first..].iter().take_while(|run| run.at < end) {
            let (from, to) = (run.at.max(at), (run.at + run.length).min(end));
            let part = &mut buffer[(from - at) as usize..(to - at) as usize];
            self.source.read_exact_at(part, run.position + (from - run.at))?;
        }
        Ok(())
    }
}

impl ReadAt for Ext3AsSquash {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        // No read crosses a border: blocks of content are said to end there.
        match offset {
            0..CONTENT => self.superblock[..].read_exact_at(buffer, offset),
            _ if offset < self.content_end => self.read_content(buffer, offset),
            _ => self.tables[..].read_exact_at(buffer, offset - self.content_end),
        }
    }
}

/// A tree of what a filesystem holds, and where its content is.
struct TreeBuilder {
    nodes: Vec<FileNode>,
    stored: StoredContent,
    runs: Vec<ContentRun>,
    /// Where the next content goes.
    end: u64,
    /// Blocks of content, of the squashfs's size.
    blocks: u64,
    /// The first name of each file.
    files: HashMap<u32, FileNodeId>,
    directories: HashSet<u32>,
    left: VecDeque<(Inode, FileNodeId)>,
}

impl TreeBuilder {
    fn of(ext3: &Ext3<'_>) -> Result<TreeBuilder, Ext3ReadError> {
        let mut builder = TreeBuilder {
            nodes: Vec::new(),
            stored: StoredContent::default(),
            runs: Vec::new(),
            end: CONTENT,
            blocks: 0,
            files: HashMap::new(),
            directories: HashSet::new(),
            left: VecDeque::new(),
        };
        let mut number = ROOT;
        let mut root = ext3.inode(ROOT)?;
        if root.mode & 0o170_000 != 0o040_000 {
            return Err(Ext3ReadError::Damaged("a root that is no directory"));
        }
        let names = ext3.names(&root)?;
        let upper = names.iter().find(|(name, _)| name == b"upper");
        if let Some((_, inode)) = upper {
            let inner = ext3.inode(*inode)?;
            if inner.mode & 0o170_000 == 0o040_000 {
                (number, root) = (*inode, inner);
            }
        }
        builder.directories.insert(number);
        let attributes = attributes(&root);
        let xattrs = marks(&root)?;
        let kind = FileNodeKind::Directory(Vec::new());
        builder.nodes.push(node(Vec::new(), 0, attributes, kind, xattrs));
        builder.left.push_back((root, 0));
        while let Some((directory, id)) = builder.left.pop_front() {
            builder.fill(ext3, &directory, id, number == ROOT)?;
        }
        Ok(builder)
    }

    fn fill(
        &mut self,
        ext3: &Ext3<'_>,
        directory: &Inode,
        id: FileNodeId,
        is_whole: bool,
    ) -> Result<(), Ext3ReadError> {
        let mut names = ext3.names(directory)?;
        names.sort_by(|a, b| shown(&a.0).cmp(shown(&b.0)));
        let mut children = Vec::new();
        for (name, number) in names {
            if is_whole && id == 0 && name == b"lost+found" {
                continue;
            }
            if name == HIDES_ALL {
                hide_all(&mut self.nodes[id as usize].xattrs);
                continue;
            }
            let own = self.nodes.len() as FileNodeId;
            if u32::try_from(self.nodes.len() + 1).is_err() {
                return Err(Ext3ReadError::Damaged("more names than can be"));
            }
            if let Some(hidden) = name.strip_prefix(HIDDEN).filter(|hidden| !hidden.is_empty()) {
                let kind = FileNodeKind::CharDevice(0);
                let nothing = TreeAttributes::default();
                self.nodes.push(node(hidden.to_vec(), id, nothing, kind, Vec::new()));
                children.push(own);
                continue;
            }
            let inode = ext3.inode(number)?;
            let kind = self.kind(ext3, &inode, number, own)?;
            let mut named = node(name, id, attributes(&inode), kind, marks(&inode)?);
            match named.kind {
                FileNodeKind::Directory(_) => self.left.push_back((inode, own)),
                _ => {
                    let first = *self.files.entry(number).or_insert(own);
                    named.first_name = (first != own).then_some(first);
                }
            }
            self.nodes.push(named);
            children.push(own);
        }
        if let FileNodeKind::Directory(list) = &mut self.nodes[id as usize].kind {
            *list = children;
        }
        Ok(())
    }

    /// What an inode is. Nobody can use a socket here, but it hides what is below it.
    fn kind(
        &mut self,
        ext3: &Ext3<'_>,
        inode: &Inode,
        number: u32,
        id: FileNodeId,
    ) -> Result<FileNodeKind, Ext3ReadError> {
        Ok(match inode.mode & 0o170_000 {
            0o040_000 if self.directories.insert(number) => FileNodeKind::Directory(Vec::new()),
            0o040_000 => return Err(Ext3ReadError::Damaged("a directory in two places")),
            0o100_000 => {
                if !self.files.contains_key(&number) {
                    self.content(ext3, inode, id)?;
                }
                FileNodeKind::File { size: inode.size, has_holes: false, given: None }
            }
            0o120_000 => FileNodeKind::Symlink(target(ext3, inode)?),
            0o020_000 => FileNodeKind::CharDevice(device(inode)),
            0o060_000 => FileNodeKind::BlockDevice(device(inode)),
            0o010_000 => FileNodeKind::Fifo,
            0o140_000 => FileNodeKind::Socket,
            _ => return Err(Ext3ReadError::Damaged("a file of no kind")),
        })
    }

    fn content(
        &mut self,
        ext3: &Ext3<'_>,
        inode: &Inode,
        id: FileNodeId,
    ) -> Result<(), Ext3ReadError> {
        let (start, size) = (self.end, inode.size);
        self.blocks = self.blocks.saturating_add(size.div_ceil(u64::from(BLOCK)));
        if self.blocks > MOST_BLOCKS {
            return Err(Ext3ReadError::Unsupported("very large files"));
        }
        for extent in ext3.extents(inode)? {
            let from = extent.at.saturating_mul(ext3.block);
            if from < size {
                let length = (extent.count * ext3.block).min(size - from);
                let position = extent.block * ext3.block;
                self.runs.push(ContentRun { at: start + from, position, length });
            }
        }
        let mut blocks = vec![BLOCK | STORED; (size / u64::from(BLOCK)) as usize];
        let rest = (size % u64::from(BLOCK)) as u32;
        blocks.extend((rest > 0).then_some(rest | STORED));
        self.end = start + size;
        if size > 0 {
            let placed = ContentPosition { start, blocks, ..ContentPosition::default() };
            self.stored.files.insert(id, placed);
        }
        Ok(())
    }
}

/// The name under which something is seen, or hidden.
fn shown(name: &[u8]) -> &[u8] {
    name.strip_prefix(HIDDEN).unwrap_or(name)
}

fn node(
    name: Vec<u8>,
    parent: FileNodeId,
    attributes: TreeAttributes,
    kind: FileNodeKind,
    xattrs: Vec<crate::squash::XattrPair>,
) -> FileNode {
    FileNode {
        name,
        parent,
        attributes,
        kind,
        first_name: None,
        has_acl: None,
        without_acl: None,
        patches: None,
        xattrs,
        is_above: false,
    }
}

fn attributes(inode: &Inode) -> TreeAttributes {
    TreeAttributes {
        mode: inode.mode & 0o7777,
        uid: inode.owner.0,
        gid: inode.owner.1,
        mtime: (inode.mtime, 0),
        ..TreeAttributes::default()
    }
}

/// A device's number, which lies in one of two fields.
fn device(inode: &Inode) -> u32 {
    let field = |at: usize| {
        let bytes = &inode.block[at..at + 4];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    match field(0) {
        0 => field(4),
        old => old,
    }
}

fn target(ext3: &Ext3<'_>, inode: &Inode) -> Result<Vec<u8>, Ext3ReadError> {
    let mut target = vec![0; inode.size.min(LONG_TARGET + 1) as usize];
    match inode.size {
        1..SHORT_TARGET => target.copy_from_slice(&inode.block[..inode.size as usize]),
        SHORT_TARGET..=LONG_TARGET => {
            let extents = ext3.extents(inode)?;
            let first = extents.first().filter(|extent| extent.at == 0);
            let fits = |count: u64| count * ext3.block >= inode.size;
            match first.filter(|extent| fits(extent.count)) {
                Some(extent) => ext3.read(extent.block * ext3.block, &mut target)?,
                None => return Err(Ext3ReadError::Damaged("a link that leads nowhere")),
            }
        }
        _ => return Err(Ext3ReadError::Damaged("a link that leads nowhere")),
    }
    Ok(target)
}

/// An inode's attributes, with what overlay filesystems note in them in the way of the kernel's.
fn marks(inode: &Inode) -> Result<Vec<crate::squash::XattrPair>, Ext3ReadError> {
    let mut kept = Vec::new();
    let mut hides = false;
    for (name, value) in &inode.xattrs {
        match MARKS.iter().find_map(|prefix| name.strip_prefix(*prefix)) {
            None => kept.push((name.clone(), value.clone())),
            Some(b"opaque") => hides |= value == b"y",
            Some(b"redirect" | b"metacopy") => {
                return Err(Ext3ReadError::Unsupported("directories that were moved"));
            }
            Some(_) => {}
        }
    }
    if hides {
        hide_all(&mut kept);
    }
    Ok(kept)
}

/// Notes that a directory hides all that is below it.
fn hide_all(xattrs: &mut Vec<crate::squash::XattrPair>) {
    for name in [b"trusted.overlay.opaque".as_slice(), b"user.overlay.opaque"] {
        let mark = (name.to_vec(), b"y".to_vec());
        if !xattrs.contains(&mark) {
            xattrs.push(mark);
        }
    }
    xattrs.sort();
}

impl From<SquashWriteError> for Ext3ReadError {
    fn from(error: SquashWriteError) -> Ext3ReadError {
        Ext3ReadError::Tables(error.to_string())
    }
}
