//! The pass-through filesystem: the kernel's questions about a tree are answered from the real
//! tree, when the profile's server would have answered them.
//!
//! | file | what it holds |
//! |---|---|
//! | `server` | the kernel's questions as fuser hands them over, one method each |
//! | `answer` | from a question to its answer: names, what a file is, data, lists |
//! | `scheduler` | when an RPC is answered: the queue, the disk, the ledger |
//! | `pace` | what handing over costs, to be taken off |
//! | `aside` | work that may have to wait for a disk |
//! | `room` | where answers wait until their time has come |
//! | `real`, `change`, `xattr` | the real tree: reading it, changing it |
//! | `nodes` | the files that the kernel knows |
//! | `handles` | those that are open |
//! | `caller` | acting as the one who asks |
//! | `attributes` | what a file is, in the words of FUSE |
//! | `cold` | dropping what the kernel has cached |
//!
//! # What is charged
//!
//! One operation each, to the metadata server:
//! - a lookup of a name that the kernel does not know, or whose lifetime is over;
//! - an open, where the profile says `asked`; a listing, every 32 KiB of it;
//! - the text of a symbolic link (the kernel keeps it), an extended attribute, statfs, a change.
//!
//! Not charged: attributes without a name (fstat, and what a lookup brought), access(2) of what is
//! known, flush, release, forget, and attributes that the kernel itself asks for (`security.*`,
//! access control lists). Reads and writes are charged to the data path, if the profile has one.
//!
//! # What is not as on the real tree
//!
//! Locks hold among the programs that see the mount, not towards others. `O_TMPFILE` is refused
//! (EOPNOTSUPP), so are ioctls (ENOTTY). Inode numbers below another mount point differ. Where the
//! server is not root, a file that may be executed but not read cannot be executed, and a directory
//! that its owner closes to himself stays open for names that are cached.
//!
//! Questions about names are answered one after the other: where the real tree is itself slow
//! (a disk that has to be waited for), they wait for each other.
//!
//! `getxattr(root, "user.becalm.cold")` drops all that the kernel has cached of the mount.

mod answer;
mod aside;
mod attributes;
mod caller;
mod change;
mod cold;
mod handles;
mod nodes;
mod pace;
mod real;
mod room;
mod scheduler;
mod server;
mod xattr;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fuser::{Config, Session, SessionACL};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Ledger, MachineQueues};
use cost::FilesystemProfile;

/// A directory that is served.
#[derive(Debug)]
pub struct ServedTree {
    /// Its path, which begins the paths in the [`Ledger`].
    pub path: PathBuf,
    /// The directory itself (O_PATH or O_RDONLY), opened before something was mounted over it.
    pub root: OwnedFd,
    /// Whether changes are allowed.
    pub writable: bool,
    /// The mount has `default_permissions`: the server is root and acts for other users.
    pub checked_by_kernel: bool,
}

/// Why a tree is served no more.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The kernel's first message.
    #[error("FUSE: the kernel's handshake failed: {0}")]
    Handshake(io::Error),
    /// A later one.
    #[error("FUSE: the connection to the kernel broke: {0}")]
    Connection(io::Error),
    /// The directory.
    #[error("{}: {error}", .path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// A thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// So many descriptors of files that the kernel knows stay open at most.
const MOST_OPEN: u64 = 100_000;

/// Serves a tree until its mount is gone. `ready` is called when it can be used. The process must
/// see /proc, and what is mounted below the tree.
///
/// Whoever mounts must ask once for the root's attributes (stat(2)) when it is ready: until then
/// the kernel takes the root directory for root's, and in a user namespace refuses to create
/// anything in it.
///
/// # Errors
/// [`ServeError`].
pub fn serve(
    device: OwnedFd,
    tree: ServedTree,
    profile: &FilesystemProfile,
    queues: Arc<MachineQueues>,
    ledger: Arc<Ledger>,
    ready: impl FnOnce(),
) -> Result<(), ServeError> {
    let ServedTree { path, root, writable, checked_by_kernel } = tree;
    let wrong =
        |error: rustix::io::Errno| ServeError::Root { path: path.clone(), error: error.into() };
    let stacked = stacked(&root).map_err(wrong)?;
    // Open files, and the trees that other threads serve, need descriptors as well.
    let most_open = (raise_open_files() / 4).min(MOST_OPEN) as usize;
    let nodes = nodes::Inodes::new(root, most_open).map_err(wrong)?;
    // Where nothing can be changed, files are shown as those that they are.
    let shown_as = (writable && !checked_by_kernel)
        .then(|| (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()));
    let real = Arc::new(real::Real {
        path,
        writable,
        for_others: checked_by_kernel,
        shown_as,
        nodes,
        files: handles::Handles::new(),
        directories: handles::Handles::new(),
    });
    let scheduler = scheduler::RpcScheduler::new(profile, queues, ledger);
    let cold = Arc::new(cold::Dropper::new(real.clone()));
    let server = answer::FuseFilesystem {
        passes_through: AtomicBool::new(checked_by_kernel && !scheduler.data_costs()),
        real,
        cache: profile.cache,
        scheduler: Arc::new(scheduler),
        room: Arc::new(room::WaitingRoom::open().map_err(ServeError::Thread)?),
        aside: aside::BlockingPool::open().map_err(ServeError::Thread)?,
        cold: cold.clone(),
        stacked,
    };
    let mut config = Config::default();
    config.n_threads = Some(1);
    let session =
        Session::from_fd(server, device, SessionACL::All, config).map_err(ServeError::Handshake)?;
    cold.connect(session.notifier());
    ready();
    match session.run() {
        // The mount went while a question was under way.
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
        result => result.map_err(ServeError::Connection),
    }
}

/// How deep the directory's filesystem is stacked on others: overlayfs and ecryptfs are.
fn stacked(root: &OwnedFd) -> rustix::io::Result<u32> {
    const OVERLAYFS: i64 = 0x794c_7630;
    const ECRYPTFS: i64 = 0xf15f;
    let kind = rustix::fs::fstatfs(root)?.f_type as i64;
    Ok(u32::from(matches!(kind, OVERLAYFS | ECRYPTFS)))
}

/// Allows this process as many open files as it may allow itself, and says how many.
fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let files = if raised.is_ok() { limit.maximum } else { limit.current };
    files.unwrap_or(u64::MAX)
}
