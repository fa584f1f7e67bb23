//! Trees are removed: by a process that waits for the last user, and what killed jobs left by the
//! next one that makes a tree.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use proc::process_ids;

use super::VARIABLE;
use super::home::Home;
use super::lock::{Lock, LockState};
use super::tree;
use crate::removed::{if_there, remove_tree};

/// How often it is looked whether a process that has closed the lock's descriptor lives.
const LOOK: Duration = Duration::from_secs(1);

/// Starts the process that removes a tree after its last user. The caller is a user.
pub(super) fn after_the_last(home: Home, name: &str) -> io::Result<()> {
    // One of its own: what the users have inherited they hold together.
    let lock = Lock::find(home.lock(name))?;
    let directory = home.directory(name);
    launch::orphan("becalm-holder", &[lock.as_fd()], || {
        while let LockState::Current = lock.own()? {
            if !is_used(&directory) {
                remove(&directory)?;
                lock.remove()?;
                break;
            }
            lock.let_go()?;
            thread::sleep(LOOK);
        }
        home.leave();
        Ok(())
    })
}

/// Removes what killed jobs of this user left on this node; not what belongs to `own`. Who uses a
/// tree on another node may not be seen from here.
pub(super) fn left_by_others(home: &Home, own: &str) {
    let node = |name: &str| name.split('-').next().map(str::to_owned);
    let names = home.names().into_iter().filter(|name| name != own && node(name) == node(own));
    for name in names {
        let Ok(lock) = Lock::find(home.lock(&name)) else { continue };
        let directory = home.directory(&name);
        // What cannot be removed takes room, and whether there is enough is looked at next.
        if lock.own_at_once() && !is_used(&directory) && remove(&directory).is_ok() {
            let _ = lock.remove();
        }
    }
}

/// Whether a process has the tree in its environment: one that closes all descriptors, as daemons
/// do, holds no lock.
fn is_used(directory: &Path) -> bool {
    let tree = directory.join(tree::ROOT);
    let variable = [VARIABLE.as_bytes(), b"=", tree.as_os_str().as_bytes()].concat();
    let has = |environ: Vec<u8>| environ.split(|byte| *byte == 0).any(|one| one == variable);
    let own = std::process::id() as i32;
    process_ids()
        .filter(|pid| *pid != own)
        .any(|pid| fs::read(format!("/proc/{pid}/environ")).is_ok_and(has))
}

/// Removes a tree, or what there is of one. What says that it is complete goes first.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    if_there(fs::remove_file(directory.join(tree::ABOUT)))?;
    remove_tree(directory)
}
