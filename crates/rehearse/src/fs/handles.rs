//! Files and directories that are open.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fuser::{BackingId, FileHandle, FileType};
use rustc_hash::FxHashMap;
use rustix::fs::{OFlags, RawDir, SeekFrom};
use rustix::io::{Errno, Result};

use super::attributes;
use super::nodes::Inode;

/// An open file.
#[derive(Debug)]
pub(super) struct ServedFile {
    pub node: Arc<Inode>,
    /// How it was opened, as far as it concerns the real file.
    pub flags: OFlags,
    /// The real file. Where the kernel reads and writes by itself it is opened when needed.
    pub real: OnceLock<OwnedFd>,
    /// What the kernel reads and writes by itself; closed with the last file that uses it.
    pub backing: Option<Arc<BackingId>>,
}

/// An open directory.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    pub node: Arc<Inode>,
    pub real: OwnedFd,
    pub listing: Mutex<ServedListing>,
}

/// How far a directory was listed.
#[derive(Debug, Default)]
pub(super) struct ServedListing {
    /// Entries that were read and not yet given.
    ahead: VecDeque<DirectoryEntry>,
    /// Where the first of them lies.
    at: u64,
    /// Bytes given since the server was asked last.
    pub given: usize,
}

/// One entry of a directory.
#[derive(Debug)]
pub(super) struct DirectoryEntry {
    pub inode: u64,
    /// Where the next one lies.
    pub next: u64,
    pub kind: FileType,
    pub name: OsString,
}

impl ServedListing {
    /// Makes `at` the place to go on from.
    pub fn go_to(&mut self, real: &OwnedFd, at: u64) -> Result<()> {
        if at != self.at {
            self.ahead.clear();
            rustix::fs::seek(real, SeekFrom::Start(at))?;
            self.at = at;
        }
        Ok(())
    }

    /// The next entry; none at the end.
    pub fn next(&mut self, real: &OwnedFd) -> Result<Option<DirectoryEntry>> {
        if self.ahead.is_empty() {
            self.read(real)?;
        }
        let entry = self.ahead.pop_front();
        if let Some(entry) = &entry {
            self.at = entry.next;
        }
        Ok(entry)
    }

    /// Takes back an entry that found no room.
    pub fn put_back(&mut self, entry: DirectoryEntry, at: u64) {
        self.ahead.push_front(entry);
        self.at = at;
    }

    fn read(&mut self, real: &OwnedFd) -> Result<()> {
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 32 << 10];
        let mut entries = RawDir::new(real, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            self.ahead.push_back(DirectoryEntry {
                inode: entry.ino(),
                next: entry.next_entry_cookie(),
                kind: attributes::kind(entry.file_type()),
                name: OsString::from_vec(entry.file_name().to_bytes().to_vec()),
            });
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok(())
    }
}

/// What is open, by the numbers that the kernel was given.
#[derive(Debug)]
pub(super) struct Handles<T> {
    open: Mutex<FxHashMap<u64, Arc<T>>>,
    number: AtomicU64,
}

impl<T> Handles<T> {
    pub fn new() -> Handles<T> {
        Handles { open: Mutex::default(), number: AtomicU64::new(1) }
    }

    pub fn insert(&self, opened: T) -> FileHandle {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        self.open().insert(number, Arc::new(opened));
        FileHandle(number)
    }

    pub fn get(&self, handle: FileHandle) -> Result<Arc<T>> {
        self.open().get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    pub fn remove(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.open().remove(&handle.0)
    }

    fn open(&self) -> MutexGuard<'_, FxHashMap<u64, Arc<T>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
