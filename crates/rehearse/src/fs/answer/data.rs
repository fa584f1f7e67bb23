//! Questions about open files: opened, read, written, closed.

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fuser::{
    BackingId, FileHandle, FopenFlags, Generation, INodeNo, ReplyCreate, ReplyData, ReplyEmpty,
    ReplyOpen, ReplyWrite, Request,
};
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, Result};

use super::super::handles::ServedFile;
use super::{FuseFilesystem, errno};
use cost::{Revalidation, RpcKind};

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

impl FuseFilesystem {
    pub fn open_file(&self, request: &Request, id: INodeNo, flags: i32, reply: ReplyOpen) {
        let question = self.question(request, RpcKind::Open);
        let opened = self.real.open(id, flags).and_then(|mut file| {
            self.pass_through(&mut file, |descriptor| reply.open_backing(descriptor));
            // What the kernel reads by itself need not be opened here.
            if file.backing.is_none() {
                self.real.real(&file)?;
            }
            Ok(file)
        });
        let due = match self.cache.open {
            Revalidation::EachTime => self.charge(question, || self.path_of(id), &opened),
            Revalidation::Cached => {
                self.scheduler.uncharged();
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
    }

    /// Makes a file, and opens it.
    pub fn create_file(
        &self,
        request: &Request,
        umask: u32,
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let path = || self.real.path_in(parent, name);
        let (due, created) =
            self.change(request, umask, path, |real| real.create(parent, name, mode, flags));
        let created = created.map(|(mut file, stat)| {
            self.pass_through(&mut file, |descriptor| reply.open_backing(descriptor));
            let file_attributes = self.real.attributes(file.node.id, &stat);
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
    }

    /// Lets the kernel read and write the file by itself, if it can.
    fn pass_through(
        &self,
        file: &mut ServedFile,
        make: impl FnOnce(&OwnedFd) -> std::io::Result<BackingId>,
    ) {
        let node = file.node.clone();
        let mut held = node.held();
        // All that have a file open must read it in the same way.
        file.backing = held.backing.upgrade();
        if file.backing.is_some() || !self.passes_through.load(Ordering::Relaxed) {
            return;
        }
        let Ok(descriptor) = self.real.nodes.descriptor(&node) else { return };
        match make(&descriptor) {
            Ok(backing) => {
                let backing = Arc::new(backing);
                held.backing = Arc::downgrade(&backing);
                file.backing = Some(backing);
            }
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {}
            Err(_) => self.passes_through.store(false, Ordering::Relaxed),
        }
    }

    /// The flags of an open file: what the kernel has of it stays if it is right, and it need not
    /// tell of each close where nothing was written.
    fn open_flags(&self, file: &ServedFile) -> FopenFlags {
        let mut flags = FopenFlags::empty();
        if file.backing.is_none() {
            let stat = self.real.stat(file.node.id);
            if stat.is_ok_and(|stat| self.real.holds_data(&file.node, &stat)) {
                flags |= FopenFlags::FOPEN_KEEP_CACHE;
            }
        }
        if !writes(file) {
            flags |= FopenFlags::FOPEN_NOFLUSH;
        }
        flags
    }

    pub fn read_data(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        reply: ReplyData,
    ) {
        let question = self.question(request, RpcKind::Read);
        let file = match self.real.files.get(handle) {
            Ok(file) => file,
            Err(error) => return reply.error(errno(error)),
        };
        let path = self.path_of(id);
        let (scheduler, room) = (self.scheduler.clone(), self.room.clone());
        let give = move |read: Result<usize>, buffer: Vec<u8>| {
            let due = scheduler.transfer(question, &path, read.unwrap_or(0) as u64);
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
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => {
                let real = self.real.clone();
                self.aside.run(move || {
                    let waiting = ReadWriteFlags::empty();
                    let read = real.read(&file, offset, &mut buffer[..size], waiting);
                    give(read, buffer);
                });
            }
            read => give(read, buffer),
        }
    }

    pub fn write_data(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        reply: ReplyWrite,
    ) {
        let question = self.question(request, RpcKind::Write);
        let written = self.real.may_change().and_then(|()| self.real.write(handle, offset, data));
        let bytes = written.as_ref().map_or(0, |length| *length as u64);
        let due = self.scheduler.transfer(question, &self.path_of(id), bytes);
        self.room.hold(due, question.thread, move || match written {
            Ok(length) => reply.written(length as u32),
            Err(error) => reply.error(errno(error)),
        });
    }

    /// copy_file_range(2), into a file of this number.
    pub fn copy_data(
        &self,
        request: &Request,
        from: (FileHandle, u64),
        id: INodeNo,
        to: (FileHandle, u64),
        length: u64,
        reply: ReplyWrite,
    ) {
        let path = || self.path_of(id);
        let (due, copied) = self.change(request, 0, path, |real| real.copy(from, to, length));
        self.room.hold(due, request.pid(), move || match copied {
            Ok(length) => reply.written(length as u32),
            Err(error) => reply.error(errno(error)),
        });
    }

    /// fallocate(2).
    pub fn allocate(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        (offset, length): (u64, u64),
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let path = || self.path_of(id);
        let (due, done) =
            self.change(request, 0, path, |real| real.allocate(handle, offset, length, mode));
        self.give_empty(due, request.pid(), reply, done);
    }

    /// Brings an open file to the disk; whoever waits for the disk waits aside.
    pub fn sync(&self, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let real = self.real.clone();
        self.aside.run(move || match real.sync(handle, data_only) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        });
    }

    pub fn close(&self, handle: FileHandle, reply: ReplyEmpty) {
        if let Some(file) = self.real.files.remove(handle)
            && writes(&file)
        {
            self.real.written(&file.node);
        }
        reply.ok();
    }
}

fn writes(file: &ServedFile) -> bool {
    file.flags.intersects(OFlags::WRONLY | OFlags::RDWR)
}
