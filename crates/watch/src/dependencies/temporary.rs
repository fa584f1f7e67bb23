//! Files that a command makes for itself and removes again: nobody else sees them, so that what is
//! read from them is what was written.

use std::collections::HashMap;
use std::ffi::{CStr, CString};

use super::StatAttributes;
use super::process::descriptor;

/// Those of a command that are there, with device and number.
#[derive(Debug, Default)]
pub(super) struct TemporaryFiles {
    is_expected: bool,
    made: HashMap<CString, (u64, u64)>,
}

impl TemporaryFiles {
    /// A note has said that the next file that is made is one: its name, which nobody knows
    /// before, decides nothing.
    pub fn expect(&mut self) {
        self.is_expected = true;
    }

    /// Whether one is about to be made.
    pub fn is_expected(&self) -> bool {
        self.is_expected
    }

    /// Whether an open with these flags makes it.
    pub fn is_made_by(&mut self, flags: u64) -> bool {
        const NEW: u64 = (libc::O_CREAT | libc::O_EXCL) as u64;
        flags & NEW == NEW && std::mem::take(&mut self.is_expected)
    }

    /// A process has made one; whether it could be looked at.
    pub fn add(&mut self, path: CString, pid: i32, fd: i32) -> bool {
        let Some(file) = descriptor(pid, fd) else { return false };
        self.made.insert(path, (file.device, file.inode));
        true
    }

    /// Whether a path is one's.
    pub fn is_one(&self, path: &CStr) -> bool {
        self.made.contains_key(path)
    }

    /// Whether a process's descriptor leads to one.
    pub fn is_open(&self, pid: i32, fd: i32) -> bool {
        let is_one = |(device, inode)| self.made.values().any(|one| *one == (device, inode));
        !self.made.is_empty()
            && descriptor(pid, fd).is_some_and(|file| is_one((file.device, file.inode)))
    }

    /// It was removed.
    pub fn remove(&mut self, path: &CStr) {
        self.made.remove(path);
    }

    /// Removes those that are there, of a command that cannot do so any more.
    pub fn remove_all(&mut self) {
        for (path, (device, inode)) in self.made.drain() {
            let file = StatAttributes::of(&path, false);
            if file.is_ok_and(|file| (file.device, file.inode) == (device, inode)) {
                let _ = rustix::fs::unlink(&path);
            }
        }
    }

    /// Whether one is still there.
    pub fn is_left(&self) -> bool {
        !self.made.is_empty()
    }
}
