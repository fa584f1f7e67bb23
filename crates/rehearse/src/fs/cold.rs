//! A node that knows nothing: all that the kernel has cached of a mount is dropped on request.
//!
//! The request is `getxattr(ROOT, "user.becalm.cold")`, since that reaches the server from any
//! program that may read the root, on a read-only mount too. It is answered with `1` when all is
//! dropped. The server's queue stays as it is.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fuser::{INodeNo, Notifier, ReplyXattr};

use super::nodes::KernelCached;
use super::real::Real;

/// The attribute that drops what is cached.
pub(super) const NAME: &str = "user.becalm.cold";

/// Names missing in the root that are remembered. With a directory goes what was missing in it, but
/// the root cannot go.
const MOST_MISSING: usize = 100_000;

/// Drops what the kernel has cached.
pub(super) struct Dropper {
    real: Arc<Real>,
    kernel: OnceLock<Notifier>,
    missing: Mutex<BTreeSet<OsString>>,
}

impl Dropper {
    pub fn new(real: Arc<Real>) -> Dropper {
        Dropper { real, kernel: OnceLock::new(), missing: Mutex::default() }
    }

    /// The way to the kernel, once there is one.
    pub fn connect(&self, kernel: Notifier) {
        self.kernel.set(kernel).ok();
    }

    /// The kernel was told that there is no such file.
    pub fn missing(&self, directory: INodeNo, name: &OsStr) {
        if directory == INodeNo::ROOT {
            let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
            if missing.len() < MOST_MISSING {
                missing.insert(name.to_owned());
            }
        }
    }

    /// Drops all, and answers then. The kernel may have to wait for other answers of ours before
    /// it can drop something, so this needs a thread of its own.
    pub fn drop_all(self: &Arc<Self>, size: u32, reply: ReplyXattr) {
        const ANSWER: &[u8] = b"1";
        if size == 0 {
            return reply.size(ANSWER.len() as u32);
        }
        let dropper = self.clone();
        let work = move || {
            dropper.tell_kernel();
            reply.data(ANSWER);
        };
        // Without a thread the reply is dropped, which the caller gets as EIO.
        std::thread::Builder::new().name("cold".to_owned()).spawn(work).ok();
    }

    fn tell_kernel(&self) {
        let Some(kernel) = self.kernel.get() else { return };
        let missing =
            std::mem::take(&mut *self.missing.lock().unwrap_or_else(PoisonError::into_inner));
        for name in missing {
            kernel.inval_entry(INodeNo::ROOT, &name).ok();
        }
        for node in self.real.nodes.all() {
            // Open files stay open, whatever the kernel reads by itself too.
            let mut held = node.held();
            *held = KernelCached { backing: held.backing.clone(), ..KernelCached::default() };
            drop(held);
            kernel.inval_inode(node.id, 0, 0).ok();
            if let Some((directory, name)) = node.name() {
                kernel.inval_entry(directory.id, &name).ok();
            }
        }
        let root = self.real.nodes.root();
        root.held().list = None;
        kernel.inval_inode(root.id, 0, 0).ok();
    }
}
