//! Questions about names: looked up, made, renamed, removed; where a symbolic link leads.

use std::ffi::OsStr;
use std::time::Duration;

use fuser::{Generation, INodeNo, RenameFlags, ReplyData, ReplyEmpty, ReplyEntry, Request};

use super::super::attributes::missing;
use super::super::change::New;
use super::{FuseFilesystem, errno};
use cost::{RpcKind, TimeSpan};

impl FuseFilesystem {
    pub fn look_up(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let question = self.question(request, RpcKind::Lookup);
        let found = self.real.look_up(parent, name);
        let due = self.charge(question, || self.real.path_in(parent, name), &found);
        let entry = found.map(|(node, stat)| self.real.attributes(node.id, &stat));
        if entry.err() == Some(rustix::io::Errno::NOENT) && self.cache.negatives > TimeSpan::ZERO {
            self.cold.missing(parent, name);
            let life = self.cache.negatives.duration();
            return self.room.hold(due, question.thread, move || {
                reply.entry_with_ttls(&Duration::ZERO, &life, &missing(), Generation(0));
            });
        }
        self.give_entry(due, question.thread, reply, entry);
    }

    pub fn read_link(&self, request: &Request, id: INodeNo, reply: ReplyData) {
        let question = self.question(request, RpcKind::Readlink);
        let target = self.real.read_link(id);
        let due = self.charge(question, || self.path_of(id), &target);
        self.room.hold(due, question.thread, move || match target {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        });
    }

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
        let entry = made.map(|(node, stat)| self.real.attributes(node.id, &stat));
        self.give_entry(due, request.pid(), reply, entry);
    }

    pub fn remove(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        is_directory: bool,
        reply: ReplyEmpty,
    ) {
        let path = || self.real.path_in(parent, name);
        let (due, done) =
            self.change(request, 0, path, |real| real.remove(parent, name, is_directory));
        self.give_empty(due, request.pid(), reply, done);
    }

    /// From one directory and name to another.
    pub fn move_name(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let path = || self.real.path_in(parent, name);
        let (due, done) =
            self.change(request, 0, path, |real| real.rename((parent, name), to, flags.bits()));
        self.give_empty(due, request.pid(), reply, done);
    }
}
