//! What is to be packed: directories and files with their attributes, but without content.
//!
//! | file | what it holds |
//! |---|---|
//! | `layout` | where in the image each path goes |
//! | `acl` | permissions where an access control list is not kept |
//! | `scan` | reads directories and attributes, many at a time |
//! | `walk` | finds a path in a tree, through symbolic links |
//! | `order` | which file's content comes first |
//! | `fingerprint` | whether the sources are still what they were |
//! | `patch` | bytes of a file that are others in the image |
//! | `graft` | files that it has besides those found |

mod acl;
mod fingerprint;
mod graft;
mod layout;
mod order;
mod patch;
mod scan;
mod walk;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, StatxFlags};

use crate::squash::XattrPair;

pub use fingerprint::Fingerprint;
pub use graft::{AddedContent, AddedFile};
pub use layout::ImageLayout;
pub use order::FileOrder;
pub use patch::ContentPatch;
pub use scan::ScanOptions;
pub use walk::{PathTarget, clean};

/// A number of a node in a [`FileTree`].
pub type FileNodeId = u32;

/// All that goes into an image. Directories come before what is in them, and what is in a directory
/// is sorted by the bytes of its names.
#[derive(Debug)]
pub struct FileTree {
    /// Which paths, and where in the image each goes.
    pub layout: ImageLayout,
    /// What the image's root is where the image is used: links and names in the tree mean that.
    /// The directory that it was made of, or, of a whole system, `/`.
    pub stands_for: PathBuf,
    /// The first is the root.
    pub nodes: Vec<FileNode>,
    /// What was left out, as it was asked for.
    pub left_out: Vec<OmittedFile>,
}

/// One file or directory.
#[derive(Clone, Debug)]
pub struct FileNode {
    /// Its name; of the root, none.
    pub name: Vec<u8>,
    /// The directory that it is in; of the root, itself.
    pub parent: FileNodeId,
    /// What stat(2) says of it.
    pub attributes: TreeAttributes,
    /// What it is.
    pub kind: FileNodeKind,
    /// The first name of the same file, where this is a further one.
    pub first_name: Option<FileNodeId>,
    /// Names and values, sorted.
    pub xattrs: Vec<XattrPair>,
    /// Whether its xattrs list a POSIX access control list; none: nobody could list them.
    pub has_acl: Option<bool>,
    /// The permissions that it has in an image where others than its own: its access control list
    /// is not kept.
    pub without_acl: Option<u16>,
    /// A directory above what is packed, which is there to hold it.
    pub is_above: bool,
    /// Bytes of its content that are others in the image, sorted by offset; the length stays.
    pub patches: Option<Arc<[ContentPatch]>>,
}

/// What stat(2) says of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeAttributes {
    /// Permissions, set-user-ID and sticky bits; not the type.
    pub mode: u16,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Seconds since 1970, and nanoseconds. squashfs keeps the seconds.
    pub mtime: (i64, u32),
    /// When anything last happened to it: seconds since 1970, and nanoseconds.
    pub ctime: (i64, u32),
    /// Filesystem and inode.
    pub identity: (u64, u64),
}

impl TreeAttributes {
    /// Whether a file that has been read is the one that these were read of, unchanged, and of this
    /// size. It is not asked when it was last read: that has just changed, so a network filesystem
    /// would have to ask its server.
    ///
    /// # Errors
    /// Those of statx(2).
    pub fn still_hold(&self, file: &File, size: u64) -> io::Result<bool> {
        let wanted = StatxFlags::INO | StatxFlags::SIZE | StatxFlags::MTIME;
        let Ok(now) = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted) else {
            // Before Linux 4.11, and where a container forbids it.
            let now = file.metadata()?;
            return Ok((now.dev(), now.ino()) == self.identity
                && now.len() == size
                && (now.mtime(), now.mtime_nsec() as u32) == self.mtime);
        };
        let device = rustix::fs::makedev(now.stx_dev_major, now.stx_dev_minor);
        Ok((device, now.stx_ino) == self.identity
            && now.stx_size == size
            && (now.stx_mtime.tv_sec, now.stx_mtime.tv_nsec) == self.mtime)
    }
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileNodeKind {
    /// A directory, and what is in it, by the bytes of its names.
    Directory(Vec<FileNodeId>),
    /// A regular file.
    File {
        /// Bytes of its content.
        size: u64,
        /// Whether it needs fewer bytes on the disk.
        has_holes: bool,
        /// The content, where it does not come from the disk.
        given: Option<Arc<[u8]>>,
    },
    /// A symbolic link, and its target.
    Symlink(Vec<u8>),
    /// A character device, and its number (Linux: new_encode_dev).
    CharDevice(u32),
    /// A block device, and its number.
    BlockDevice(u32),
    /// A named pipe.
    Fifo,
    /// A socket: none is packed, but what is in an overlay hides what is below it.
    Socket,
}

/// A file that is not in the image.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct OmittedFile {
    /// Where it is.
    #[serde(serialize_with = "crate::path_json::serialize")]
    #[schemars(with = "crate::path_json::PathText")]
    pub path: PathBuf,
    /// Why it was left out.
    pub why: OmitReason,
}

/// Why a file is not in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OmitReason {
    /// Whoever made the image may not read it.
    Unreadable,
    /// It is a socket.
    Socket,
}

impl FileTree {
    /// Where a node was found.
    pub fn source(&self, node: FileNodeId) -> PathBuf {
        let mut path = self.layout.base().to_owned();
        path.extend(&self.below(node));
        path
    }

    /// Where a node is when the image is used.
    pub fn place(&self, node: FileNodeId) -> PathBuf {
        let mut path = self.stands_for.clone();
        path.extend(&self.below(node));
        path
    }

    /// A node's path from the image's root.
    pub fn below(&self, node: FileNodeId) -> PathBuf {
        let mut names = Vec::new();
        let mut at = node;
        while at != 0 {
            let node = &self.nodes[at as usize];
            names.push(OsStr::from_bytes(&node.name));
            at = node.parent;
        }
        names.iter().rev().collect()
    }

    /// The files whose content is packed: one of the names of each.
    pub fn files(&self) -> impl Iterator<Item = FileNodeId> {
        (0..).zip(&self.nodes).filter_map(|(id, node)| {
            let is_file =
                matches!(node.kind, FileNodeKind::File { .. }) && node.first_name.is_none();
            is_file.then_some(id)
        })
    }

    /// When anything last happened to what is packed, its names, owners and modes included (the
    /// newest ctime), in nanoseconds since 1970.
    pub fn last_change(&self) -> u64 {
        let packed = self.nodes.iter().filter(|node| !node.is_above);
        packed.map(|node| nanoseconds(node.attributes.ctime)).max().unwrap_or(0)
    }

    /// The inodes of the packed paths, in the layout's order.
    pub fn inodes(&self) -> Vec<u64> {
        let is_top = |id: FileNodeId| {
            let node = &self.nodes[id as usize];
            !node.is_above && (id == 0 || self.nodes[node.parent as usize].is_above)
        };
        let tops = (0..self.nodes.len() as FileNodeId).filter(|id| is_top(*id));
        let inodes: BTreeMap<PathBuf, u64> = tops
            .map(|id| (self.source(id), self.nodes[id as usize].attributes.identity.1))
            .collect();
        let paths = self.layout.paths().iter();
        paths.map(|path| inodes.get(path).copied().unwrap_or_default()).collect()
    }

    /// When the newest of what is packed was changed, in seconds since 1970.
    pub fn newest(&self) -> u32 {
        let packed = self.nodes.iter().filter(|node| !node.is_above);
        packed.map(|node| seconds(node.attributes.mtime.0)).max().unwrap_or(0)
    }
}

/// A time as one number: 1970 to 2554.
pub fn nanoseconds((seconds, rest): (i64, u32)) -> u64 {
    (seconds.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(rest.into())
}

/// A time as squashfs keeps it: 1970 to 2106.
pub fn seconds(time: i64) -> u32 {
    u32::try_from(time.max(0)).unwrap_or(u32::MAX)
}
