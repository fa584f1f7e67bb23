//! Questions about what a file is: attributes, permissions, extended attributes, its filesystem.

use std::ffi::OsStr;

use fuser::{INodeNo, ReplyAttr, ReplyEmpty, ReplyStatfs, ReplyXattr, Request};
use rustix::io::Result;

use super::super::change::AttributeChange;
use super::super::cold;
use super::super::real::Real;
use super::super::xattr::XattrReply;
use super::{FuseFilesystem, errno};
use cost::RpcKind;

impl FuseFilesystem {
    pub fn tell(&self, id: INodeNo, reply: ReplyAttr) {
        self.scheduler.uncharged();
        match self.real.stat(id) {
            Ok(stat) => reply.attr(&self.attribute_life(), &self.real.attributes(id, &stat)),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn set(&self, request: &Request, id: INodeNo, wanted: &AttributeChange, reply: ReplyAttr) {
        let path = || self.path_of(id);
        let (due, set) = self.change(request, 0, path, |real| real.set(id, wanted));
        let life = self.attribute_life();
        let set = set.map(|stat| self.real.attributes(id, &stat));
        self.room.hold(due, request.pid(), move || match set {
            Ok(file) => reply.attr(&life, &file),
            Err(error) => reply.error(errno(error)),
        });
    }

    pub fn allow(&self, id: INodeNo, mask: i32, reply: ReplyEmpty) {
        self.scheduler.uncharged();
        match self.real.access(id, mask) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn tell_filesystem(&self, request: &Request, id: INodeNo, reply: ReplyStatfs) {
        let question = self.question(request, RpcKind::Statfs);
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
    }

    pub fn tell_xattr(
        &self,
        request: &Request,
        id: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        if id == INodeNo::ROOT && name == cold::NAME {
            return self.cold.drop_all(size, reply);
        }
        let question = self.question(request, RpcKind::Xattr);
        let value = self.real.xattr(id, Some(name), size);
        if is_for_the_kernel(name) {
            self.scheduler.uncharged();
            return give_xattr(reply, value);
        }
        let due = self.charge(question, || self.path_of(id), &value);
        self.room.hold(due, question.thread, move || give_xattr(reply, value));
    }

    pub fn list_xattrs(&self, request: &Request, id: INodeNo, size: u32, reply: ReplyXattr) {
        let question = self.question(request, RpcKind::Xattr);
        let list = self.real.xattr(id, None, size);
        let due = self.charge(question, || self.path_of(id), &list);
        self.room.hold(due, question.thread, move || give_xattr(reply, list));
    }

    /// Sets an extended attribute, or removes it.
    pub fn change_xattr(
        &self,
        request: &Request,
        id: INodeNo,
        reply: ReplyEmpty,
        change: impl FnOnce(&Real) -> Result<()>,
    ) {
        let (due, done) = self.change(request, 0, || self.path_of(id), change);
        self.give_empty(due, request.pid(), reply, done);
    }
}

/// The kernel itself asks for these, before exec and write; a network filesystem keeps them with
/// the attributes.
fn is_for_the_kernel(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"security.") || name.starts_with(b"system.posix_acl_")
}

fn give_xattr(reply: ReplyXattr, value: Result<XattrReply>) {
    match value {
        Ok(XattrReply::Length(length)) => reply.size(length),
        Ok(XattrReply::Value(value)) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}
