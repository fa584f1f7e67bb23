//! Changes to the real tree, made by a thread that acts as the caller.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use fuser::{FileHandle, INodeNo, TimeOrNow};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, SeekFrom, Stat,
    Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
};
use rustix::io::{Errno, Result};

use super::attributes::timespec;
use super::handles::ServedFile;
use super::nodes::{Inode, proc_path};
use super::real::Real;

/// What is to be set of a file's attributes.
#[derive(Debug, Default)]
pub(super) struct AttributeChange {
    pub mode: Option<u32>,
    pub owner: Option<u32>,
    pub group: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<TimeOrNow>,
    pub modified: Option<TimeOrNow>,
    pub handle: Option<FileHandle>,
}

/// What is to be made under a new name.
#[derive(Debug)]
pub(super) enum New<'a> {
    Directory { mode: u32 },
    Inode { mode: u32, device: u32 },
    SymbolicLink(&'a Path),
    HardLink(INodeNo),
}

impl Real {
    /// Every change comes through here.
    pub fn may_change(&self) -> Result<()> {
        if self.writable { Ok(()) } else { Err(Errno::ROFS) }
    }

    /// Sets attributes, in the order of Linux: what may be refused first.
    pub fn set(&self, id: INodeNo, wanted: &AttributeChange) -> Result<Stat> {
        let node = self.nodes.get(id)?;
        let file = self.nodes.descriptor(&node)?;
        let path = proc_path(&file);
        if wanted.owner.is_some() || wanted.group.is_some() {
            let (owner, group) = (wanted.owner.map(Uid::from_raw), wanted.group.map(Gid::from_raw));
            rustix::fs::chownat(&*file, "", owner, group, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = wanted.mode {
            if node.is_link() {
                return Err(Errno::OPNOTSUPP);
            }
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::chmodat(CWD, path.as_str(), mode, AtFlags::empty())?;
        }
        if let Some(size) = wanted.size {
            self.truncate(&node, wanted.handle, size)?;
        }
        if wanted.accessed.is_some() || wanted.modified.is_some() {
            let times = Timestamps {
                last_access: time_or_now(wanted.accessed),
                last_modification: time_or_now(wanted.modified),
            };
            rustix::fs::utimensat(&*file, "", &times, AtFlags::EMPTY_PATH)?;
        }
        rustix::fs::fstat(&*file)
    }

    fn truncate(&self, node: &Arc<Inode>, handle: Option<FileHandle>, size: u64) -> Result<()> {
        match handle {
            Some(handle) => rustix::fs::ftruncate(self.real(&*self.files.get(handle)?)?, size),
            None => rustix::fs::ftruncate(self.reopen(node, OFlags::WRONLY)?, size),
        }?;
        self.written(node);
        Ok(())
    }

    /// Makes something under a new name.
    pub fn make(&self, directory: INodeNo, name: &OsStr, new: &New) -> Result<(Arc<Inode>, Stat)> {
        let directory = self.nodes.get(directory)?;
        let above = self.nodes.descriptor(&directory)?;
        match new {
            New::Directory { mode } => {
                rustix::fs::mkdirat(&*above, name, Mode::from_raw_mode(mode & 0o7777))
            }
            New::Inode { mode, device } => {
                let (kind, mode) = (FileType::from_raw_mode(*mode), Mode::from_raw_mode(*mode));
                rustix::fs::mknodat(&*above, name, kind, mode, u64::from(*device))
            }
            New::SymbolicLink(target) => rustix::fs::symlinkat(*target, &*above, name),
            New::HardLink(id) => self.link(&self.nodes.get(*id)?, &above, name),
        }?;
        self.nodes.look_up(&directory, name)
    }

    fn link(&self, node: &Arc<Inode>, above: &OwnedFd, name: &OsStr) -> Result<()> {
        // A path of /proc must be followed, so it cannot lead to a link itself.
        if let (true, Some((directory, old))) = (node.is_link(), node.name()) {
            let directory = self.nodes.descriptor(&directory)?;
            return rustix::fs::linkat(&*directory, &old, above, name, AtFlags::empty());
        }
        let path = proc_path(&*self.nodes.descriptor(node)?);
        rustix::fs::linkat(CWD, path.as_str(), above, name, AtFlags::SYMLINK_FOLLOW)
    }

    /// Makes and opens a file.
    pub fn create(
        &self,
        directory: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> Result<(ServedFile, Stat)> {
        let directory = self.nodes.get(directory)?;
        let above = self.nodes.descriptor(&directory)?;
        let mut flags = OFlags::from_bits_retain(flags as u32);
        flags.remove(OFlags::DIRECT);
        flags.insert(OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK);
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let file = self.nodes.open(|| rustix::fs::openat(&*above, name, flags, mode))?;
        let (node, stat) = self.nodes.look_up(&directory, name)?;
        Ok((ServedFile { node, flags, real: OnceLock::from(file), backing: None }, stat))
    }

    /// Removes a name.
    pub fn remove(&self, directory: INodeNo, name: &OsStr, is_directory: bool) -> Result<()> {
        let directory = self.nodes.get(directory)?;
        let above = self.nodes.descriptor(&directory)?;
        self.nodes.keep(&directory, name);
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&*above, name, flags)
    }

    /// Gives a file another name; `flags` are those of renameat2(2).
    pub fn rename(
        &self,
        (from, old): (INodeNo, &OsStr),
        (to, new): (INodeNo, &OsStr),
        flags: u32,
    ) -> Result<()> {
        let (from, to) = (self.nodes.get(from)?, self.nodes.get(to)?);
        let (above_from, above_to) = (self.nodes.descriptor(&from)?, self.nodes.descriptor(&to)?);
        self.nodes.keep(&to, new);
        let flags = RenameFlags::from_bits_retain(flags);
        rustix::fs::renameat_with(&*above_from, old, &*above_to, new, flags)?;
        self.nodes.renamed(&to, new);
        if flags.contains(RenameFlags::EXCHANGE) {
            self.nodes.renamed(&from, old);
        }
        Ok(())
    }

    /// Writes to an open file, all of it.
    pub fn write(&self, handle: FileHandle, at: u64, data: &[u8]) -> Result<usize> {
        let file = self.files.get(handle)?;
        let real = self.real(&file)?;
        let mut written = 0;
        while written < data.len() {
            match rustix::io::pwrite(real, &data[written..], at + written as u64) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                // What was written counts; the next write finds the error.
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// fallocate(2).
    pub fn allocate(&self, handle: FileHandle, at: u64, length: u64, mode: i32) -> Result<()> {
        let file = self.files.get(handle)?;
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        rustix::fs::fallocate(self.real(&file)?, mode, at, length)?;
        self.written(&file.node);
        Ok(())
    }

    /// copy_file_range(2).
    pub fn copy(
        &self,
        (from, mut at): (FileHandle, u64),
        (to, mut into): (FileHandle, u64),
        length: u64,
    ) -> Result<usize> {
        let (from, to) = (self.files.get(from)?, self.files.get(to)?);
        // Others wait meanwhile; whoever copies goes on with the rest.
        let length = length.min(16 << 20) as usize;
        let (source, target) = (self.real(&from)?, self.real(&to)?);
        rustix::fs::copy_file_range(source, Some(&mut at), target, Some(&mut into), length)
    }

    /// lseek(2) to data or to a hole.
    pub fn seek(&self, handle: FileHandle, offset: i64, whence: i32) -> Result<i64> {
        let file = self.files.get(handle)?;
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let position = match whence {
            libc::SEEK_DATA => SeekFrom::Data(offset),
            libc::SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        rustix::fs::seek(self.real(&file)?, position).map(|position| position as i64)
    }

    /// Brings an open file to the disk.
    pub fn sync(&self, handle: FileHandle, data_only: bool) -> Result<()> {
        let file = self.files.get(handle)?;
        let real = self.real(&file)?;
        if data_only { rustix::fs::fdatasync(real) } else { rustix::fs::fsync(real) }
    }
}

fn time_or_now(time: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(UTIME_OMIT),
        Some(TimeOrNow::Now) => special(UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => timespec(SystemTime::into(time)),
    }
}
