//! Whether a tree is still what its index says, without a look at each of its directories: a process
//! that watches the tree is asked instead.
//!
//! The kernel tells a watcher of every change of a directory or file that it watches, before the call
//! that makes it returns (inotify(7)). So whoever asks after a change, and is answered by a watcher
//! that first takes in what the kernel has told, never hears that the tree is as it was. A watcher
//! that is dead, stopped or behind gives no answer; then the tree is looked at.
//!
//! | file | what it holds |
//! |---|---|
//! | `changes` | what the kernel tells of a tree |
//! | `serve` | a watcher: trees, and who asks for them |
//! | `ask` | what a watcher says of a tree |
//!
//! A tree's watcher is found by an abstract socket that is named after the tree's inode: it is gone
//! with the watcher, whatever ends that, and the kernel says whose it is.

mod ask;
mod changes;
mod serve;

pub use ask::watched_index;
pub(crate) use ask::watched_index_of;
pub use changes::TreeWatchError;
pub use serve::TreeWatcher;

use rustix::net::SocketAddrUnix;
use serde::{Deserialize, Serialize};

use crate::index::PathState;

/// What an answer begins with; another number for another form.
const MAGIC: &[u8] = b"becalm-watched 1\n";

/// An answer has less than a hundred bytes.
const MOST: usize = 512;

/// What a watcher says of a tree that is as its index says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WatchedState {
    /// The file of the index.
    index: PathState,
    /// The namespace that the watcher sees mounts in: another one may have something mounted over a
    /// part of the tree.
    mounts: (u64, u64),
}

/// The device and inode of a modulepath.
type PathIdentity = (u64, u64);

/// The name of a tree's socket.
fn address((device, inode): PathIdentity) -> rustix::io::Result<SocketAddrUnix> {
    let name = format!("becalm-watched-{device:x}-{inode:x}");
    SocketAddrUnix::new_abstract_name(name.as_bytes())
}

/// The namespace that this process sees mounts in.
fn mount_namespace() -> rustix::io::Result<(u64, u64)> {
    let about = rustix::fs::stat("/proc/self/ns/mnt")?;
    Ok((about.st_dev, about.st_ino))
}
