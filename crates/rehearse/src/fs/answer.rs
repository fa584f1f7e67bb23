//! From a question to its answer: the change is made as the caller, the operation entered, the
//! answer held until its time.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyXattr, Request,
};
use recording::Nanos;
use rustix::io::Result;

use super::aside::Aside;
use super::attributes::attributes;
use super::caller::Caller;
use super::change::New;
use super::cold;
use super::handles::File;
use super::real::Real;
use super::room::WaitingRoom;
use super::toll::{Question, Toll};
use super::xattr::Xattr;
use crate::{Cache, Kind, clock};

/// The filesystem, as fuser calls it.
pub(super) struct Server {
    pub real: Arc<Real>,
    pub cache: Cache,
    pub toll: Arc<Toll>,
    pub room: Arc<WaitingRoom>,
    pub aside: Aside,
    pub cold: Arc<cold::Dropper>,
    /// The kernel reads and writes the real files by itself.
    pub passes_through: AtomicBool,
    /// How deep the real tree's filesystem is stacked on others, if it passes through.
    pub stacked: u32,
}

/// A part of a folder's list that one answer of a server brings.
const LIST: usize = 32 << 10;

impl Server {
    pub fn question(&self, request: &Request, kind: Kind) -> Question {
        Question { kind, thread: request.pid(), at: clock::now() }
    }

    fn caller(request: &Request, umask: u32) -> Caller {
        Caller { user: request.uid(), group: request.gid(), thread: request.pid(), umask }
    }

    /// How long names that were found are trusted.
    pub fn entry_life(&self) -> Duration {
        self.cache.entries.duration()
    }

    /// How long attributes are: at least as long as the name that they came with, and so long
    /// that they need not be asked for right after it. A server is never asked for them alone.
    pub fn attribute_life(&self) -> Duration {
        self.entry_life().max(Duration::from_secs(1))
    }

    /// Makes a change as the caller, enters it, and says when the answer may be given.
    pub fn change<T>(
        &self,
        request: &Request,
        umask: u32,
        path: impl FnOnce() -> Vec<u8>,
        change: impl FnOnce(&Real) -> Result<T>,
    ) -> (Nanos, Result<T>) {
        let question = self.question(request, Kind::Change);
        let done = self.real.may_change().and_then(|()| {
            let _acting = Server::caller(request, umask).act(self.real.for_others)?;
            change(&self.real)
        });
        (self.charge(question, path, &done), done)
    }

    /// Enters a metadata operation with its result.
    pub fn charge<T>(
        &self,
        question: Question,
        path: impl FnOnce() -> Vec<u8>,
        result: &Result<T>,
    ) -> Nanos {
        let missing = matches!(result, Err(rustix::io::Errno::NOENT));
        self.toll.metadata(question, &path(), missing)
    }

    pub fn path_of(&self, id: INodeNo) -> Vec<u8> {
        self.real.nodes.get(id).map(|node| self.real.path_of(&node)).unwrap_or_default()
    }

    pub fn give_entry(&self, due: Nanos, thread: u32, reply: ReplyEntry, entry: Result<FileAttr>) {
        let (attributes, names) = (self.attribute_life(), self.entry_life());
        self.room.hold(due, thread, move || match entry {
            Ok(file) => reply.entry_with_ttls(&attributes, &names, &file, Generation(0)),
            Err(error) => reply.error(errno(error)),
        });
    }

    pub fn give_empty(&self, due: Nanos, thread: u32, reply: ReplyEmpty, done: Result<()>) {
        self.room.hold(due, thread, move || match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        });
    }

    /// Lets the kernel read and write the file by itself, if it can.
    pub fn pass_through(
        &self,
        file: &mut File,
        make: impl FnOnce(&std::os::fd::OwnedFd) -> std::io::Result<fuser::BackingId>,
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
    pub fn open_flags(&self, file: &File) -> FopenFlags {
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
}

pub(super) fn writes(file: &File) -> bool {
    use rustix::fs::OFlags;
    file.flags.intersects(OFlags::WRONLY | OFlags::RDWR)
}

pub(super) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

impl Server {
    pub fn make(
        &self,
        request: &Request,
        umask: u32,
        parent: INodeNo,
        name: &OsStr,
        new: &New,
        reply: ReplyEntry,
    ) {
        let path = || self.real.path_in(parent, name);
        let (due, made) = self.change(request, umask, path, |real| real.make(parent, name, new));
        let entry = made.map(|(node, stat)| attributes(node.id, &stat));
        self.give_entry(due, request.pid(), reply, entry);
    }

    pub fn remove(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        is_folder: bool,
        reply: ReplyEmpty,
    ) {
        let path = || self.real.path_in(parent, name);
        let (due, done) =
            self.change(request, 0, path, |real| real.remove(parent, name, is_folder));
        self.give_empty(due, request.pid(), reply, done);
    }

    /// Fills in a part of a folder's list. Gives the folder's path if a server would have been
    /// asked for it.
    pub fn list(
        &self,
        handle: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<Option<Vec<u8>>> {
        let folder = self.real.folders.get(handle)?;
        let mut listing = folder.listing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        listing.go_to(&folder.real, offset)?;
        let mut at = offset;
        let mut asked = offset == 0;
        while let Some(entry) = listing.next(&folder.real)? {
            if reply.add(INodeNo(entry.inode), entry.next, entry.kind, &entry.name) {
                listing.put_back(entry, at);
                break;
            }
            at = entry.next;
            // As getdents64(2) has it.
            listing.given += (19 + entry.name.len() + 8) & !7;
            if listing.given > LIST {
                listing.given = 0;
                asked = true;
            }
        }
        Ok(asked.then(|| self.real.path_of(&folder.node)))
    }
}

pub(super) fn give_xattr(reply: ReplyXattr, value: Result<Xattr>) {
    match value {
        Ok(Xattr::Length(length)) => reply.size(length),
        Ok(Xattr::Value(value)) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}
