//! Extended attributes of the real files.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use fuser::INodeNo;
use rustix::fs::XattrFlags;
use rustix::io::Result;

use super::nodes::{Inode, proc_path};
use super::real::Real;

/// An extended attribute, as it was asked for.
#[derive(Debug)]
pub(super) enum XattrReply {
    /// How long it is.
    Length(u32),
    /// What it is.
    Value(Vec<u8>),
}

/// A path for calls that take no O_PATH descriptor, and what keeps it valid.
struct XattrPath {
    path: PathBuf,
    /// The path is a symbolic link of /proc, which is to be followed. If not, it is the file's
    /// name, and not to be followed.
    follow: bool,
    _keep: Arc<OwnedFd>,
}

/// No value and no list is longer (XATTR_SIZE_MAX, XATTR_LIST_MAX in limits.h).
const LONGEST: usize = 64 << 10;

impl Real {
    fn way(&self, node: &Arc<Inode>) -> Result<XattrPath> {
        if let (true, Some((directory, name))) = (node.is_link(), node.name()) {
            let keep = self.nodes.descriptor(&directory)?;
            let path = PathBuf::from(proc_path(&keep)).join(name);
            return Ok(XattrPath { path, follow: false, _keep: keep });
        }
        let keep = self.nodes.descriptor(node)?;
        Ok(XattrPath { path: proc_path(&keep).into(), follow: true, _keep: keep })
    }

    /// The value of an extended attribute, or the list of all for no name; only its length if
    /// `size` is 0.
    pub fn xattr(&self, id: INodeNo, name: Option<&OsStr>, size: u32) -> Result<XattrReply> {
        use rustix::fs::{getxattr, lgetxattr, listxattr, llistxattr};
        let way = self.way(&self.nodes.get(id)?)?;
        let path = &way.path;
        let mut value = vec![0; if size == 0 { LONGEST } else { LONGEST.min(size as usize) }];
        let length = match (name, way.follow) {
            (Some(name), true) => getxattr(path, name, &mut value[..]),
            (Some(name), false) => lgetxattr(path, name, &mut value[..]),
            (None, true) => listxattr(path, &mut value[..]),
            (None, false) => llistxattr(path, &mut value[..]),
        }?;
        value.truncate(length);
        Ok(if size == 0 { XattrReply::Length(length as u32) } else { XattrReply::Value(value) })
    }

    /// Sets an extended attribute.
    pub fn set_xattr(&self, id: INodeNo, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let way = self.way(&self.nodes.get(id)?)?;
        let flags = XattrFlags::from_bits_retain(flags as u32);
        match way.follow {
            true => rustix::fs::setxattr(&way.path, name, value, flags),
            false => rustix::fs::lsetxattr(&way.path, name, value, flags),
        }
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, id: INodeNo, name: &OsStr) -> Result<()> {
        let way = self.way(&self.nodes.get(id)?)?;
        match way.follow {
            true => rustix::fs::removexattr(&way.path, name),
            false => rustix::fs::lremovexattr(&way.path, name),
        }
    }
}
