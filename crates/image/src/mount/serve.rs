//! A squashfs, served through FUSE.
//!
//! The image never changes, so the kernel is told to keep all that it is told, for ever: names,
//! names that are not there, attributes, links, listings and content. It need not ask before an
//! open either. What it asks again is only what it had to forget for want of memory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use image_format::squash::{
    FileContent, ListingPosition, NodeKind, SquashAttributes, SquashImage, SquashNode,
    SquashReadError, SuperblockFacts,
};

use super::handshake::KernelOffer;
use super::layer::ImageLayer;

/// The largest request, in bytes.
const REQUEST: u32 = 1 << 20;
/// Requests that the kernel makes ahead of a reader.
const AHEAD: u16 = 64;
/// Longer than any job.
const FOR_EVER: Duration = Duration::from_secs(1 << 31);

/// Adds a name to an answer: what has it, where to go on after it, its kind, and the name. True
/// once the answer is full.
type Add<'a> = dyn FnMut(SquashNode, u64, NodeKind, &[u8]) -> bool + 'a;

pub(super) struct ImageServer {
    layer: ImageLayer,
    image: Arc<SquashImage>,
    facts: SuperblockFacts,
    contents: Mutex<Contents>,
    /// Whose all files are. In a user namespace others could not be shown, and an overlay could
    /// not copy their files.
    owner: Option<(u32, u32)>,
    /// The kernel need not ask before it opens.
    no_open: bool,
    no_open_directory: bool,
    /// What the kernel said when the session began.
    offered: Arc<OnceLock<KernelOffer>>,
}

/// Where the content of files is that were read last: one that is read in pieces has its blocks
/// looked up once.
#[derive(Default)]
struct Contents {
    known: HashMap<SquashNode, Arc<FileContent>>,
    blocks: u64,
}

/// As many blocks are known at most: 16 MiB of memory.
const MOST_BLOCKS: u64 = 1 << 20;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What a damaged image looks like to a program.
fn errno(error: &SquashReadError) -> Errno {
    match error {
        SquashReadError::IsNo("directory") => Errno::ENOTDIR,
        SquashReadError::IsNo(_) => Errno::EINVAL,
        _ => Errno::EIO,
    }
}

impl ImageServer {
    /// For an image. With `all_mine`, all files are shown as this user's.
    pub fn of(layer: &ImageLayer, all_mine: bool) -> ImageServer {
        let own = || (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        ImageServer {
            layer: layer.clone(),
            image: layer.image.clone(),
            owner: all_mine.then(own),
            facts: layer.facts.clone(),
            contents: Mutex::default(),
            no_open: false,
            no_open_directory: false,
            offered: Arc::default(),
        }
    }

    /// Where it is to be read what the kernel says when the session begins.
    pub fn offered(&self) -> Arc<OnceLock<KernelOffer>> {
        self.offered.clone()
    }

    fn node(&self, number: INodeNo) -> SquashNode {
        SquashNode::from_number(number.0, &self.image)
    }

    fn about(&self, node: SquashNode) -> Result<FileAttr, SquashReadError> {
        let mut attributes = self.image.attributes(node)?;
        if let Some(edited) = self.layer.edited(node) {
            edited.apply(&mut attributes);
        }
        Ok(self.attributes(INodeNo(node.number(&self.image)), &attributes))
    }

    fn attributes(&self, ino: INodeNo, of: &SquashAttributes) -> FileAttr {
        let changed = UNIX_EPOCH + Duration::from_secs(u64::from(of.mtime));
        let (uid, gid) = self.owner.unwrap_or((of.uid, of.gid));
        FileAttr {
            ino,
            size: of.size,
            blocks: of.stored.div_ceil(512),
            atime: changed,
            mtime: changed,
            ctime: changed,
            crtime: changed,
            kind: kind(of.kind),
            perm: of.mode,
            nlink: of.names,
            uid,
            gid,
            rdev: of.device,
            blksize: self.image.block_size(),
            flags: 0,
        }
    }

    fn content(&self, node: SquashNode) -> Result<Arc<FileContent>, SquashReadError> {
        let lock = || self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = lock().known.get(&node) {
            return Ok(content.clone());
        }
        let content = Arc::new(self.image.open(node)?);
        let blocks = content.size() / u64::from(self.facts.block_size) + 8;
        let mut contents = lock();
        contents.blocks += blocks;
        if contents.blocks > MOST_BLOCKS {
            *contents = Contents { known: HashMap::new(), blocks };
        }
        contents.known.insert(node, content.clone());
        Ok(content)
    }

    fn read(
        &self,
        node: SquashNode,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, SquashReadError> {
        self.image.read_at(&*self.content(node)?, offset, buffer)
    }

    /// The names in a directory from an offset on, until `add` says that it is full.
    fn entries(
        &self,
        directory: INodeNo,
        offset: u64,
        add: &mut Add<'_>,
    ) -> Result<(), SquashReadError> {
        let node = self.node(directory);
        for (own, name) in [(1, b".".as_slice()), (2, b"..")] {
            if offset < own && add(node, own, NodeKind::Directory, name) {
                return Ok(());
            }
        }
        let from = ListingPosition(offset.saturating_sub(2));
        self.image.list(node, from, &mut |entry| match add(
            entry.node,
            entry.after.0 + 2,
            entry.kind,
            &entry.name,
        ) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }
}

fn kind(kind: NodeKind) -> FileType {
    match kind {
        NodeKind::Directory => FileType::Directory,
        NodeKind::File => FileType::RegularFile,
        NodeKind::Symlink => FileType::Symlink,
        NodeKind::BlockDevice => FileType::BlockDevice,
        NodeKind::CharDevice => FileType::CharDevice,
        NodeKind::Fifo => FileType::NamedPipe,
        NodeKind::Socket => FileType::Socket,
    }
}

impl Filesystem for ImageServer {
    fn init(&mut self, _: &Request, kernel: &mut KernelConfig) -> io::Result<()> {
        let version = kernel.kernel_abi();
        let capabilities = kernel.capabilities().bits();
        let _ = self.offered.set(KernelOffer { version: (version.0, version.1), capabilities });
        let wanted = [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_MAX_PAGES,
        ];
        // What a listing tells is not looked up.
        let listed = InitFlags::FUSE_DO_READDIRPLUS;
        let listed = self.layer.untraced().is_none().then_some(listed);
        for flag in wanted.into_iter().chain(listed) {
            // An older kernel does without.
            let _ = kernel.add_capabilities(flag);
        }
        self.no_open = kernel.add_capabilities(InitFlags::FUSE_NO_OPEN_SUPPORT).is_ok();
        self.no_open_directory =
            kernel.add_capabilities(InitFlags::FUSE_NO_OPENDIR_SUPPORT).is_ok();
        let _ = kernel.set_max_write(REQUEST);
        if let Err(most) = kernel.set_max_readahead(REQUEST) {
            let _ = kernel.set_max_readahead(most);
        }
        let _ = kernel.set_max_background(AHEAD);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.layer.lookup(self.node(parent), name);
        let found = found.and_then(|node| node.map(|node| self.about(node)).transpose());
        match found {
            Ok(Some(about)) => reply.entry(&FOR_EVER, &about, Generation(0)),
            // An entry without an inode: there is none, and never will be.
            Ok(None) => {
                reply.entry(
                    &FOR_EVER,
                    &self.attributes(INodeNo(0), &SquashAttributes::NONE),
                    Generation(0),
                );
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.about(self.node(ino)) {
            Ok(about) => reply.attr(&FOR_EVER, &about),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.image.target(self.node(ino)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.no_open {
            // Never ask again (Linux 4.11).
            true => reply.error(Errno::ENOSYS),
            false => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
        }
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR;
        match self.no_open_directory {
            true => reply.error(Errno::ENOSYS),
            false => reply.opened(FileHandle(0), flags),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(size as usize, 0);
            let node = self.node(ino);
            if let Some(edited) = self.layer.edited(node) {
                return match edited.read_at(offset, buffer) {
                    Ok(got) => reply.data(&buffer[..got]),
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        reply.error(Errno::EACCES);
                    }
                    Err(_) => reply.error(Errno::EIO),
                };
            }
            match ImageServer::read(self, node, offset, buffer) {
                Ok(got) => reply.data(&buffer[..got]),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.entries(ino, offset, &mut |node, next, what, name| {
            let number = INodeNo(node.number(&self.image));
            reply.add(number, next, kind(what), OsStr::from_bytes(name))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let mut failed = None;
        let listed = self.entries(ino, offset, &mut |node, next, _, name| match self.about(node) {
            Ok(about) => reply.add(
                about.ino,
                next,
                OsStr::from_bytes(name),
                &FOR_EVER,
                &about,
                Generation(0),
            ),
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        match listed.err().or(failed) {
            None => reply.ok(),
            Some(error) => reply.error(errno(&error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (bytes, files) = (self.facts.bytes, u64::from(self.facts.inodes));
        let size = self.facts.block_size;
        reply.statfs(bytes.div_ceil(u64::from(size)), 0, 0, files, 0, size, 255, size);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if !self.facts.xattrs {
            // Never ask again.
            return reply.error(Errno::ENOSYS);
        }
        match self.image.xattrs(self.node(ino)) {
            Ok(all) => {
                let mut all = all.into_iter();
                match all.find(|(own, _)| own == name.as_bytes()) {
                    Some((_, value)) => answer(reply, &value, size),
                    None => reply.error(Errno::NO_XATTR),
                }
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        if !self.facts.xattrs {
            return reply.error(Errno::ENOSYS);
        }
        match self.image.xattrs(self.node(ino)) {
            Ok(all) => {
                let names: Vec<u8> =
                    all.into_iter().flat_map(|(name, _)| [&name[..], b"\0"].concat()).collect();
                answer(reply, &names, size);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }
}

/// The size where that is asked for, else the value, if it fits (getxattr(2)).
fn answer(reply: ReplyXattr, value: &[u8], size: u32) {
    match size {
        0 => reply.size(value.len() as u32),
        _ if value.len() > size as usize => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
