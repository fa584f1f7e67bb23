//! Questions about what a directory holds.

use fuser::{FileHandle, FopenFlags, INodeNo, ReplyDirectory, ReplyOpen, Request};
use rustix::io::Result;

use super::{FuseFilesystem, errno};
use cost::{Revalidation, RpcKind};

/// A part of a directory's list that one answer of a server brings.
const LIST: usize = 32 << 10;

impl FuseFilesystem {
    pub fn open_directory(&self, id: INodeNo, reply: ReplyOpen) {
        self.scheduler.uncharged();
        let directory = match self.real.open_directory(id) {
            Ok(directory) => directory,
            Err(error) => return reply.error(errno(error)),
        };
        let mut flags = FopenFlags::empty();
        if self.cache.list == Revalidation::Cached {
            flags |= FopenFlags::FOPEN_CACHE_DIR;
            if self.real.holds_list(&directory, self.cache.entries.nanos()) {
                flags |= FopenFlags::FOPEN_KEEP_CACHE;
            }
        }
        reply.opened(self.real.directories.insert(directory), flags);
    }

    pub fn list(
        &self,
        request: &Request,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let question = self.question(request, RpcKind::List);
        match self.fill_in(handle, offset, &mut reply) {
            Ok(None) => {
                self.scheduler.uncharged();
                reply.ok();
            }
            Ok(Some(path)) => {
                let due = self.scheduler.metadata(question, &path, false);
                self.room.hold(due, question.thread, move || reply.ok());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Fills in a part of a directory's list. Gives the directory's path if a server would have
    /// been asked for it.
    fn fill_in(
        &self,
        handle: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<Option<Vec<u8>>> {
        let directory = self.real.directories.get(handle)?;
        let mut listing = directory.listing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        listing.go_to(&directory.real, offset)?;
        let mut at = offset;
        let mut asked = offset == 0;
        while let Some(entry) = listing.next(&directory.real)? {
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
        Ok(asked.then(|| self.real.path_of(&directory.node)))
    }
}
