//! What is in one directory.

use std::os::fd::OwnedFd;

use rustc_hash::FxHashMap;
use rustix::fs::{FileType, Mode, OFlags, RawDir, openat};
use rustix::io::Errno as Error;

use super::Errno;

/// The entries of a directory and their kinds, `.` and `..` among them.
pub(super) type DirectoryEntries = FxHashMap<Box<[u8]>, FileType>;

/// The kernel fills this by one call, if the directory has fewer than a thousand entries. The C library's malloc
/// tidies up all of its heap when twice as much is freed (FASTBIN_CONSOLIDATION_THRESHOLD).
const BUFFER: usize = 32 << 10;
/// A directory whose names take as much is not small.
const LARGE: usize = 32 << 10;

/// A directory being listed.
pub(super) struct DirectoryListing {
    directory: OwnedFd,
    entries: DirectoryEntries,
}

impl DirectoryListing {
    /// Opens the directory at `path`.
    pub(super) fn open(path: &[u8]) -> Result<DirectoryListing, Errno> {
        DirectoryListing::open_with(path, OFlags::empty())
    }

    /// The same of one that may be changed: to have looked at it leaves its access time, which undoing
    /// gives back, where that is allowed (to its owner).
    pub(super) fn open_unnoticed(path: &[u8]) -> Result<DirectoryListing, Errno> {
        let open = |flags| DirectoryListing::open_with(path, flags);
        open(OFlags::NOATIME).or_else(|error| match error.0 {
            libc::EPERM => open(OFlags::empty()),
            _ => Err(error),
        })
    }

    fn open_with(path: &[u8], more: OFlags) -> Result<DirectoryListing, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
        let directory = openat(rustix::fs::CWD, path, flags, Mode::empty()).map_err(number)?;
        Ok(DirectoryListing { directory, entries: DirectoryEntries::default() })
    }

    /// The entries; nothing if there are more than fit and only `small` directories are wanted.
    pub(super) fn entries(mut self, small: bool) -> Result<Option<DirectoryEntries>, Errno> {
        // Not filled: most directories have a handful of entries, and to fill it would take longer.
        let mut buffer: Vec<u8> = Vec::with_capacity(BUFFER);
        let mut raw = RawDir::new(&self.directory, buffer.spare_capacity_mut());
        let mut filled = 0;
        while let Some(entry) = raw.next() {
            let entry = entry.map_err(number)?;
            let name = entry.file_name().to_bytes();
            filled += name.len() + 32;
            self.entries.insert(name.into(), entry.file_type());
            if small && filled > LARGE {
                return Ok(None);
            }
        }
        Ok(Some(self.entries))
    }
}

fn number(error: Error) -> Errno {
    Errno(error.raw_os_error())
}
