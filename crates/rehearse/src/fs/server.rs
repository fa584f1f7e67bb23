//! The kernel's questions as fuser hands them over, one method each; `answer` answers them.

use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::answer::{FuseFilesystem, errno};
use super::change::{AttributeChange, New};
use super::real::Real;

/// Readahead and writeback requests that may be under way at once.
const UNDER_WAY: u16 = 64;

/// Runs a handler. If it panics its reply is dropped, which the kernel gets as EIO.
fn guarded(handler: impl FnOnce()) {
    catch_unwind(AssertUnwindSafe(handler)).ok();
}

impl Filesystem for FuseFilesystem {
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
        guarded(|| self.look_up(request, parent, name, reply));
    }

    fn forget(&self, _: &Request, id: INodeNo, times: u64) {
        guarded(|| self.real.nodes.forget(id, times));
    }

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        guarded(|| self.tell(id, reply));
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
        let wanted = AttributeChange { mode, owner, group, size, accessed, modified, handle };
        guarded(|| self.set(request, id, &wanted, reply));
    }

    fn readlink(&self, request: &Request, id: INodeNo, reply: ReplyData) {
        guarded(|| self.read_link(request, id, reply));
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
        guarded(|| self.make(request, umask, parent, name, &New::Inode { mode, device }, reply));
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
        guarded(|| self.make(request, umask, parent, name, &New::Directory { mode }, reply));
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
        guarded(|| self.move_name(request, (parent, name), (new_parent, new_name), flags, reply));
    }

    fn open(&self, request: &Request, id: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        guarded(|| self.open_file(request, id, flags.0, reply));
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
        guarded(|| self.read_data(request, id, handle, offset, size, reply));
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
        guarded(|| self.write_data(request, id, handle, offset, data, reply));
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
        guarded(|| self.close(handle, reply));
    }

    fn fsync(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.sync(handle, data_only, reply);
    }

    fn opendir(&self, _: &Request, id: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        guarded(|| self.open_directory(id, reply));
    }

    fn readdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        guarded(|| self.list(request, handle, offset, reply));
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
            drop(self.real.directories.remove(handle));
            reply.ok();
        });
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        guarded(|| {
            let directory = self.real.directories.get(handle);
            match directory.and_then(|directory| rustix::fs::fsync(&directory.real)) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn statfs(&self, request: &Request, id: INodeNo, reply: ReplyStatfs) {
        guarded(|| self.tell_filesystem(request, id, reply));
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
        let set = |real: &Real| real.set_xattr(id, name, value, flags);
        guarded(|| self.change_xattr(request, id, reply, set));
    }

    fn getxattr(&self, request: &Request, id: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        guarded(|| self.tell_xattr(request, id, name, size, reply));
    }

    fn listxattr(&self, request: &Request, id: INodeNo, size: u32, reply: ReplyXattr) {
        guarded(|| self.list_xattrs(request, id, size, reply));
    }

    fn removexattr(&self, request: &Request, id: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = |real: &Real| real.remove_xattr(id, name);
        guarded(|| self.change_xattr(request, id, reply, remove));
    }

    fn access(&self, _: &Request, id: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        guarded(|| self.allow(id, mask.bits(), reply));
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
        guarded(|| self.create_file(request, umask, (parent, name), mode, flags, reply));
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
        guarded(|| self.allocate(request, id, handle, (offset, length), mode, reply));
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
        guarded(|| self.copy_data(request, (from, offset), id, (to, into), length, reply));
    }
}
