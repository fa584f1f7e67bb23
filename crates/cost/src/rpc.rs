//! RPCs: what crosses the network between a node and the servers of a shared filesystem.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a node asks a server for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RpcKind {
    /// Is there a file of this name, and what is it?
    Lookup,
    /// The attributes of a file that is known. They come with its name, so the pass-through
    /// filesystem never sends for them alone.
    Attributes,
    /// May it be opened, and is what the node has of it still true?
    Open,
    /// What does a directory hold?
    List,
    /// Where does a symbolic link lead?
    Readlink,
    /// Extended attributes.
    Xattr,
    /// May somebody do something with it? Served from the attributes, as [`RpcKind::Attributes`].
    Access,
    /// Something is created, renamed, removed, or its attributes set.
    Change,
    /// A lock on a part of a file. The pass-through filesystem leaves locks to the kernel.
    Lock,
    /// How full the filesystem is.
    Statfs,
    /// A transfer of a file's data to the node.
    Read,
    /// A transfer of a file's data from the node.
    Write,
}

impl RpcKind {
    /// All of them, in the order of [`RpcCounts::by_kind`].
    pub const ALL: [RpcKind; 12] = [
        RpcKind::Lookup,
        RpcKind::Attributes,
        RpcKind::Open,
        RpcKind::List,
        RpcKind::Readlink,
        RpcKind::Xattr,
        RpcKind::Access,
        RpcKind::Change,
        RpcKind::Lock,
        RpcKind::Statfs,
        RpcKind::Read,
        RpcKind::Write,
    ];

    /// Whether it goes to the metadata server, and is no transfer of data.
    pub fn is_metadata(self) -> bool {
        !matches!(self, RpcKind::Read | RpcKind::Write)
    }
}

/// One RPC to the metadata server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rpc<'a> {
    /// What.
    pub kind: RpcKind,
    /// On what: an absolute path without `.` and `..`.
    pub path: &'a [u8],
    /// Whether it ends with ENOENT.
    pub enoent: bool,
    /// Whether the node caches the result, so that its other processes need no RPC for it.
    pub cached: bool,
}

/// How many RPCs of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RpcCounts {
    /// In the order of [`RpcKind::ALL`].
    pub by_kind: [u32; RpcKind::ALL.len()],
    /// How many of them end with ENOENT.
    pub enoent: u32,
}

impl RpcCounts {
    /// All of them.
    pub fn total(&self) -> u32 {
        self.by_kind.iter().sum()
    }

    /// Those of one kind.
    pub fn of(&self, kind: RpcKind) -> u32 {
        self.by_kind[kind as usize]
    }

    /// Counts one.
    pub fn add(&mut self, rpc: &Rpc) {
        self.by_kind[rpc.kind as usize] += 1;
        self.enoent += u32::from(rpc.enoent);
    }
}
