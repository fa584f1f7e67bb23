//! The real tree: what the kernel asks about it, done at once.

use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use fuser::{FileAttr, INodeNo};
use recording::Nanos;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, Stat, StatVfs};
use rustix::io::{Errno, ReadWriteFlags, Result};

use super::attributes::attributes;
use super::handles::{Handles, OpenDirectory, ServedFile, ServedListing};
use super::nodes::{ContentStamp, Inode, Inodes, proc_path};
use crate::clock;

/// The real tree, and what the kernel has of it.
#[derive(Debug)]
pub(super) struct Real {
    pub path: PathBuf,
    pub writable: bool,
    /// Whether the server is root and acts for others.
    pub for_others: bool,
    /// Whose all files are shown as; none: whose they are. In a user namespace a file of any other
    /// user or group, secondary ones included, has no owner that the kernel can tell, and it
    /// refuses all changes of such a file before it asks (fs/namei.c, `HAS_UNMAPPED_ID`).
    pub shown_as: Option<(u32, u32)>,
    pub nodes: Inodes,
    pub files: Handles<ServedFile>,
    pub directories: Handles<OpenDirectory>,
}

/// The kernel's own flag for an open by exec (`__FMODE_EXEC`, include/linux/fs.h).
const TO_EXECUTE: i32 = 0x20;

/// What of an open's flags concerns the real file. Direct access would ask for aligned buffers.
const PASSED_ON: OFlags = OFlags::RDWR
    .union(OFlags::WRONLY)
    .union(OFlags::APPEND)
    .union(OFlags::NOATIME)
    .union(OFlags::DSYNC)
    .union(OFlags::SYNC);

impl Real {
    /// The node's path, as the ledger has it.
    pub fn path_of(&self, node: &Inode) -> Vec<u8> {
        let mut path = self.path.as_os_str().as_bytes().to_vec();
        path.extend_from_slice(&node.path());
        path
    }

    /// The path of a name in a directory.
    pub fn path_in(&self, directory: INodeNo, name: &OsStr) -> Vec<u8> {
        let mut path = match self.nodes.get(directory) {
            Ok(directory) => self.path_of(&directory),
            Err(_) => Vec::new(),
        };
        path.push(b'/');
        path.extend_from_slice(name.as_bytes());
        path
    }

    /// The file of a name.
    pub fn look_up(&self, directory: INodeNo, name: &OsStr) -> Result<(Arc<Inode>, Stat)> {
        self.nodes.look_up(&self.nodes.get(directory)?, name)
    }

    /// A file's attributes, in the words of FUSE.
    pub fn attributes(&self, id: INodeNo, stat: &Stat) -> FileAttr {
        attributes(id, stat, self.shown_as)
    }

    /// What a file is.
    pub fn stat(&self, id: INodeNo) -> Result<Stat> {
        rustix::fs::fstat(&*self.nodes.descriptor(&self.nodes.get(id)?)?)
    }

    /// Where a symbolic link leads.
    pub fn read_link(&self, id: INodeNo) -> Result<Vec<u8>> {
        let link = self.nodes.descriptor(&self.nodes.get(id)?)?;
        rustix::fs::readlinkat(&*link, "", Vec::new()).map(std::ffi::CString::into_bytes)
    }

    /// Whether the server's user may do this with a file.
    pub fn access(&self, id: INodeNo, mask: i32) -> Result<()> {
        let node = self.nodes.get(id)?;
        let access = Access::from_bits_truncate(mask as u32);
        self.may(&node, access)
    }

    fn may(&self, node: &Arc<Inode>, access: Access) -> Result<()> {
        let file = self.nodes.descriptor(node)?;
        if access.contains(Access::WRITE_OK) && !self.writable {
            return Err(Errno::ROFS);
        }
        rustix::fs::accessat(CWD, proc_path(&file), access, AtFlags::empty())
    }

    /// Opens a file. `flags` are those of open(2).
    pub fn open(&self, id: INodeNo, flags: i32) -> Result<ServedFile> {
        let node = self.nodes.get(id)?;
        if flags & libc::O_ACCMODE != libc::O_RDONLY && !self.writable {
            return Err(Errno::ROFS);
        }
        if flags & TO_EXECUTE != 0 && !self.for_others {
            self.may(&node, Access::EXEC_OK)?;
        }
        let flags = OFlags::from_bits_retain(flags as u32) & PASSED_ON;
        Ok(ServedFile { node, flags, real: OnceLock::new(), backing: None })
    }

    /// The real file behind an open one.
    pub fn real<'a>(&self, file: &'a ServedFile) -> Result<&'a OwnedFd> {
        if let Some(real) = file.real.get() {
            return Ok(real);
        }
        let real = self.reopen(&file.node, file.flags)?;
        Ok(file.real.get_or_init(|| real))
    }

    /// A new descriptor of a file that the kernel knows.
    pub fn reopen(&self, node: &Arc<Inode>, flags: OFlags) -> Result<OwnedFd> {
        let path = proc_path(&*self.nodes.descriptor(node)?);
        // What is opened as a file may have become something else: never wait for it.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        self.nodes.open(|| rustix::fs::open(path.as_str(), flags, Mode::empty()))
    }

    /// Whether the pages that the kernel has of a file are still right. From now on they are
    /// those of this state.
    pub fn holds_data(&self, node: &Arc<Inode>, stat: &Stat) -> bool {
        let stamp = Some(ContentStamp::of(stat));
        std::mem::replace(&mut node.held().data, stamp) == stamp
    }

    /// A file was written through the mount: what the kernel has of it is right.
    pub fn written(&self, node: &Arc<Inode>) {
        let Ok(file) = self.nodes.descriptor(node) else { return };
        let Ok(stat) = rustix::fs::fstat(&*file) else { return };
        let mut held = node.held();
        if held.data.is_some() {
            held.data = Some(ContentStamp::of(&stat));
        }
    }

    /// Opens a directory.
    pub fn open_directory(&self, id: INodeNo) -> Result<OpenDirectory> {
        let node = self.nodes.get(id)?;
        let real = self.reopen(&node, OFlags::DIRECTORY)?;
        Ok(OpenDirectory { node, real, listing: Mutex::new(ServedListing::default()) })
    }

    /// Whether the list that the kernel may have of a directory is still right, and no older than
    /// `lifetime`. If not, the kernel will ask for a new one.
    pub fn holds_list(&self, directory: &OpenDirectory, lifetime: Nanos) -> bool {
        let Ok(stat) = rustix::fs::fstat(&directory.real) else { return false };
        let (now, stamp) = (clock::now(), ContentStamp::of(&stat));
        let mut held = directory.node.held();
        let right = held
            .list
            .is_some_and(|(since, of)| of == stamp && now.0.saturating_sub(since.0) < lifetime.0);
        if !right {
            held.list = Some((now, stamp));
        }
        right
    }

    /// How full the filesystem is.
    pub fn statvfs(&self, id: INodeNo) -> Result<StatVfs> {
        rustix::fs::fstatvfs(&*self.nodes.descriptor(&self.nodes.get(id)?)?)
    }

    /// Reads from an open file into the buffer: all of it, up to the end of the file.
    ///
    /// # Errors
    /// With `NOWAIT`: EAGAIN or EOPNOTSUPP if a disk may have to be waited for.
    pub fn read(
        &self,
        file: &ServedFile,
        at: u64,
        buffer: &mut [u8],
        flags: ReadWriteFlags,
    ) -> Result<usize> {
        let real = self.real(file)?;
        let mut filled = 0;
        while filled < buffer.len() {
            let mut rest = [IoSliceMut::new(&mut buffer[filled..])];
            match rustix::io::preadv2(real, &mut rest, at + filled as u64, flags) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}
