//! The kernel's questions, one method each: answered from the real tree at once, entered in the
//! ledger, and given when the server would have answered.

use std::cell::Cell;
use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use rustix::io::{Errno as Wait, ReadWriteFlags, Result};

use super::answer::{Server, errno, give_xattr, writes};
use super::attributes::{attributes, missing};
use super::change::{New, Wanted};
use super::cold;
use crate::{Ask, Kind, Span};

thread_local! {
    /// Where a thread reads into, from one time to the next.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A buffer of at least this size, not cleared if the thread has used one before.
fn buffer_of(size: usize) -> Vec<u8> {
    let mut buffer = BUFFER.take();
    if buffer.len() < size {
        buffer.resize(size, 0);
    }
    buffer
}

/// Readahead and writeback requests that may be under way at once.
const UNDER_WAY: u16 = 64;

/// Runs a handler. If it panics its reply is dropped, which the kernel gets as EIO.
fn guarded(handler: impl FnOnce()) {
    catch_unwind(AssertUnwindSafe(handler)).ok();
}

/// The kernel itself asks for these, before exec and write; a network filesystem keeps them with
/// the attributes.
fn is_for_the_kernel(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"security.") || name.starts_with(b"system.posix_acl_")
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let mut wanted = vec![
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_DONT_MASK,
            InitFlags::FUSE_ASYNC_DIO,
        ];
        if self.real.for_others {
            wanted.push(InitFlags::FUSE_POSIX_ACL);
        }
        for flag in wanted {
            // An older kernel does without.
            config.add_capabilities(flag).ok();
        }
        config.set_max_background(UNDER_WAY).ok();
        let passes = self.passes_through.get_mut();
        *passes = *passes
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(self.stacked + 1).is_ok();
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        guarded(|| {
            let question = self.question(request, Kind::Lookup);
            let found = self.real.look_up(parent, name);
            let due = self.charge(question, || self.real.path_in(parent, name), &found);
            let entry = found.map(|(node, stat)| attributes(node.id, &stat));
            if entry.err() == Some(rustix::io::Errno::NOENT) && self.cache.negatives > Span::ZERO {
                self.cold.missing(parent, name);
                let life = self.cache.negatives.duration();
                return self.room.hold(due, question.thread, move || {
                    reply.entry_with_ttls(&Duration::ZERO, &life, &missing(), Generation(0));
                });
            }
            self.give_entry(due, question.thread, reply, entry);
        });
    }

    fn forget(&self, _: &Request, id: INodeNo, times: u64) {
        guarded(|| self.real.nodes.forget(id, times));
    }

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        guarded(|| {
            self.toll.uncharged();
            match self.real.stat(id) {
                Ok(stat) => reply.attr(&self.attribute_life(), &attributes(id, &stat)),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn setattr(
        &self,
        request: &Request,
        id: INodeNo,
        mode: Option<u32>,
        owner: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        guarded(|| {
            let wanted = Wanted { mode, owner, group, size, accessed, modified, handle };
            let path = || self.path_of(id);
            let (due, set) = self.change(request, 0, path, |real| real.set(id, &wanted));
            let life = self.attribute_life();
            self.room.hold(due, request.pid(), move || match set {
                Ok(stat) => reply.attr(&life, &attributes(id, &stat)),
                Err(error) => reply.error(errno(error)),
            });
        });
    }

    fn readlink(&self, request: &Request, id: INodeNo, reply: ReplyData) {
        guarded(|| {
            let question = self.question(request, Kind::Readlink);
            let target = self.real.read_link(id);
            let due = self.charge(question, || self.path_of(id), &target);
            self.room.hold(due, question.thread, move || match target {
                Ok(target) => reply.data(&target),
                Err(error) => reply.error(errno(error)),
            });
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        guarded(|| self.make(request, umask, parent, name, &New::Node { mode, device }, reply));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        guarded(|| self.make(request, umask, parent, name, &New::Folder { mode }, reply));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        guarded(|| self.make(request, 0, parent, name, &New::SymbolicLink(target), reply));
    }

    fn link(
        &self,
        request: &Request,
        id: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        guarded(|| self.make(request, 0, parent, name, &New::HardLink(id), reply));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        guarded(|| self.remove(request, parent, name, false, reply));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        guarded(|| self.remove(request, parent, name, true, reply));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        guarded(|| {
            let path = || self.real.path_in(parent, name);
            let (due, done) = self.change(request, 0, path, |real| {
                real.rename((parent, name), (new_parent, new_name), flags.bits())
            });
            self.give_empty(due, request.pid(), reply, done);
        });
    }

    fn open(&self, request: &Request, id: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        guarded(|| {
            let question = self.question(request, Kind::Open);
            let opened = self.real.open(id, flags.0).and_then(|mut file| {
                self.pass_through(&mut file, |descriptor| reply.open_backing(descriptor));
                // What the kernel reads by itself need not be opened here.
                if file.backing.is_none() {
                    self.real.real(&file)?;
                }
                Ok(file)
            });
            let due = match self.cache.open {
                Ask::Asked => self.charge(question, || self.path_of(id), &opened),
                Ask::Kept => {
                    self.toll.uncharged();
                    question.at
                }
            };
            let opened = opened.map(|file| {
                let (flags, backing) = (self.open_flags(&file), file.backing.clone());
                (self.real.files.insert(file), flags, backing)
            });
            self.room.hold(due, question.thread, move || match opened {
                Ok((handle, flags, Some(backing))) => {
                    reply.opened_passthrough(handle, flags, &backing);
                }
                Ok((handle, flags, None)) => reply.opened(handle, flags),
                Err(error) => reply.error(errno(error)),
            });
        });
    }

    fn read(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        guarded(|| {
            let question = self.question(request, Kind::Read);
            let file = match self.real.files.get(handle) {
                Ok(file) => file,
                Err(error) => return reply.error(errno(error)),
            };
            let path = self.path_of(id);
            let (toll, room) = (self.toll.clone(), self.room.clone());
            let give = move |read: Result<usize>, buffer: Vec<u8>| {
                let due = toll.transfer(question, &path, read.unwrap_or(0) as u64);
                room.hold(due, question.thread, move || match read {
                    Ok(length) => {
                        reply.data(&buffer[..length]);
                        BUFFER.set(buffer);
                    }
                    Err(error) => reply.error(errno(error)),
                });
            };
            let size = size as usize;
            let mut buffer = buffer_of(size);
            let at_once = ReadWriteFlags::NOWAIT;
            match self.real.read(&file, offset, &mut buffer[..size], at_once) {
                Err(Wait::AGAIN | Wait::OPNOTSUPP) => {
                    let real = self.real.clone();
                    self.aside.run(move || {
                        let waiting = ReadWriteFlags::empty();
                        let read = real.read(&file, offset, &mut buffer[..size], waiting);
                        give(read, buffer);
                    });
                }
                read => give(read, buffer),
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        guarded(|| {
            let question = self.question(request, Kind::Write);
            let written =
                self.real.may_change().and_then(|()| self.real.write(handle, offset, data));
            let bytes = written.as_ref().map_or(0, |length| *length as u64);
            let due = self.toll.transfer(question, &self.path_of(id), bytes);
            self.room.hold(due, question.thread, move || match written {
                Ok(length) => reply.written(length as u32),
                Err(error) => reply.error(errno(error)),
            });
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        guarded(|| {
            if let Some(file) = self.real.files.remove(handle)
                && writes(&file)
            {
                self.real.written(&file.node);
            }
            reply.ok();
        });
    }

    fn fsync(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let real = self.real.clone();
        self.aside.run(move || match real.sync(handle, data_only) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn opendir(&self, _: &Request, id: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        guarded(|| {
            self.toll.uncharged();
            let folder = match self.real.open_folder(id) {
                Ok(folder) => folder,
                Err(error) => return reply.error(errno(error)),
            };
            let mut flags = FopenFlags::empty();
            if self.cache.list == Ask::Kept {
                flags |= FopenFlags::FOPEN_CACHE_DIR;
                if self.real.holds_list(&folder, self.cache.entries.nanos()) {
                    flags |= FopenFlags::FOPEN_KEEP_CACHE;
                }
            }
            reply.opened(self.real.folders.insert(folder), flags);
        });
    }

    fn readdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        guarded(|| {
            let question = self.question(request, Kind::List);
            match self.list(handle, offset, &mut reply) {
                Ok(None) => {
                    self.toll.uncharged();
                    reply.ok();
                }
                Ok(Some(path)) => {
                    let due = self.toll.metadata(question, &path, false);
                    self.room.hold(due, question.thread, move || reply.ok());
                }
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        guarded(|| {
            drop(self.real.folders.remove(handle));
            reply.ok();
        });
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        guarded(|| {
            let folder = self.real.folders.get(handle);
            match folder.and_then(|folder| rustix::fs::fsync(&folder.real)) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn statfs(&self, request: &Request, id: INodeNo, reply: ReplyStatfs) {
        guarded(|| {
            let question = self.question(request, Kind::Statfs);
            let stat = self.real.statvfs(id);
            let due = self.charge(question, || self.path_of(id), &stat);
            self.room.hold(due, question.thread, move || match stat {
                Ok(stat) => reply.statfs(
                    stat.f_blocks,
                    stat.f_bfree,
                    stat.f_bavail,
                    stat.f_files,
                    stat.f_ffree,
                    stat.f_bsize as u32,
                    stat.f_namemax as u32,
                    stat.f_frsize as u32,
                ),
                Err(error) => reply.error(errno(error)),
            });
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        id: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        guarded(|| {
            let path = || self.path_of(id);
            let (due, done) =
                self.change(request, 0, path, |real| real.set_xattr(id, name, value, flags));
            self.give_empty(due, request.pid(), reply, done);
        });
    }

    fn getxattr(&self, request: &Request, id: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        guarded(|| {
            if id == INodeNo::ROOT && name == cold::NAME {
                return self.cold.drop_all(size, reply);
            }
            let question = self.question(request, Kind::Xattr);
            let value = self.real.xattr(id, Some(name), size);
            if is_for_the_kernel(name) {
                self.toll.uncharged();
                return give_xattr(reply, value);
            }
            let due = self.charge(question, || self.path_of(id), &value);
            self.room.hold(due, question.thread, move || give_xattr(reply, value));
        });
    }

    fn listxattr(&self, request: &Request, id: INodeNo, size: u32, reply: ReplyXattr) {
        guarded(|| {
            let question = self.question(request, Kind::Xattr);
            let list = self.real.xattr(id, None, size);
            let due = self.charge(question, || self.path_of(id), &list);
            self.room.hold(due, question.thread, move || give_xattr(reply, list));
        });
    }

    fn removexattr(&self, request: &Request, id: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        guarded(|| {
            let path = || self.path_of(id);
            let (due, done) = self.change(request, 0, path, |real| real.remove_xattr(id, name));
            self.give_empty(due, request.pid(), reply, done);
        });
    }

    fn access(&self, _: &Request, id: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        guarded(|| {
            self.toll.uncharged();
            match self.real.access(id, mask.bits()) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        guarded(|| {
            let path = || self.real.path_in(parent, name);
            let (due, created) =
                self.change(request, umask, path, |real| real.create(parent, name, mode, flags));
            let created = created.map(|(mut file, stat)| {
                self.pass_through(&mut file, |descriptor| reply.open_backing(descriptor));
                let file_attributes = attributes(file.node.id, &stat);
                let (flags, backing) = (self.open_flags(&file), file.backing.clone());
                (self.real.files.insert(file), flags, backing, file_attributes)
            });
            let life = self.entry_life();
            let generation = Generation(0);
            self.room.hold(due, request.pid(), move || match created {
                Ok((handle, flags, Some(backing), file)) => {
                    reply.created_passthrough(&life, &file, generation, handle, flags, &backing);
                }
                Ok((handle, flags, None, file)) => {
                    reply.created(&life, &file, generation, handle, flags);
                }
                Err(error) => reply.error(errno(error)),
            });
        });
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        guarded(|| {
            let path = || self.path_of(id);
            let (due, done) =
                self.change(request, 0, path, |real| real.allocate(handle, offset, length, mode));
            self.give_empty(due, request.pid(), reply, done);
        });
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        guarded(|| match self.real.seek(handle, offset, whence) {
            Ok(position) => reply.offset(position),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        from: FileHandle,
        offset: u64,
        id: INodeNo,
        to: FileHandle,
        into: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        guarded(|| {
            let path = || self.path_of(id);
            let (due, copied) =
                self.change(request, 0, path, |real| real.copy((from, offset), (to, into), length));
            self.room.hold(due, request.pid(), move || match copied {
                Ok(length) => reply.written(length as u32),
                Err(error) => reply.error(errno(error)),
            });
        });
    }
}
