//! From a question to its answer: it is answered from the real tree at once, a change made as the
//! caller; the operation is entered in the ledger, and the answer held until its time.
//!
//! | file | which questions it answers |
//! |---|---|
//! | `names` | names: looked up, made, renamed, removed; where a link leads |
//! | `about` | what a file is: attributes, permissions, extended attributes |
//! | `data` | open files: opened, read, written, closed |
//! | `listing` | what a directory holds |

mod about;
mod data;
mod listing;
mod names;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fuser::{Errno, FileAttr, Generation, INodeNo, ReplyEmpty, ReplyEntry, Request};
use recording::Nanos;
use rustix::io::Result;

use super::aside::BlockingPool;
use super::caller::FuseCaller;
use super::cold;
use super::real::Real;
use super::room::WaitingRoom;
use super::scheduler::{RpcArrival, RpcScheduler};
use crate::clock;
use cost::{CacheRules, RpcKind};

/// The filesystem, as fuser calls it.
pub(super) struct FuseFilesystem {
    pub real: Arc<Real>,
    pub cache: CacheRules,
    pub scheduler: Arc<RpcScheduler>,
    pub room: Arc<WaitingRoom>,
    pub aside: BlockingPool,
    pub cold: Arc<cold::Dropper>,
    /// The kernel reads and writes the real files by itself.
    pub passes_through: AtomicBool,
    /// How deep the real tree's filesystem is stacked on others, if it passes through.
    pub stacked: u32,
}

impl FuseFilesystem {
    fn question(&self, request: &Request, kind: RpcKind) -> RpcArrival {
        RpcArrival { kind, thread: request.pid(), at: clock::now() }
    }

    fn caller(request: &Request, umask: u32) -> FuseCaller {
        FuseCaller { user: request.uid(), group: request.gid(), thread: request.pid(), umask }
    }

    /// How long names that were found are trusted.
    fn entry_life(&self) -> Duration {
        self.cache.entries.duration()
    }

    /// How long attributes are: at least as long as the name that they came with, and so long
    /// that they need not be asked for right after it. A server is never asked for them alone.
    fn attribute_life(&self) -> Duration {
        self.entry_life().max(Duration::from_secs(1))
    }

    /// Makes a change as the caller, enters it, and says when the answer may be given.
    fn change<T>(
        &self,
        request: &Request,
        umask: u32,
        path: impl FnOnce() -> Vec<u8>,
        change: impl FnOnce(&Real) -> Result<T>,
    ) -> (Nanos, Result<T>) {
        let question = self.question(request, RpcKind::Change);
        let done = self.real.may_change().and_then(|()| {
            let _acting = FuseFilesystem::caller(request, umask).act(self.real.for_others)?;
            change(&self.real)
        });
        (self.charge(question, path, &done), done)
    }

    /// Enters a metadata operation with its result.
    fn charge<T>(
        &self,
        question: RpcArrival,
        path: impl FnOnce() -> Vec<u8>,
        result: &Result<T>,
    ) -> Nanos {
        let enoent = matches!(result, Err(rustix::io::Errno::NOENT));
        self.scheduler.metadata(question, &path(), enoent)
    }

    fn path_of(&self, id: INodeNo) -> Vec<u8> {
        self.real.nodes.get(id).map(|node| self.real.path_of(&node)).unwrap_or_default()
    }

    fn give_entry(&self, due: Nanos, thread: u32, reply: ReplyEntry, entry: Result<FileAttr>) {
        let (attributes, names) = (self.attribute_life(), self.entry_life());
        self.room.hold(due, thread, move || match entry {
            Ok(file) => reply.entry_with_ttls(&attributes, &names, &file, Generation(0)),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn give_empty(&self, due: Nanos, thread: u32, reply: ReplyEmpty, done: Result<()>) {
        self.room.hold(due, thread, move || match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        });
    }
}

pub(super) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}
