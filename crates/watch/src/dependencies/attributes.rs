//! What stat(2) says of a file.

use std::ffi::CStr;

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What stat(2) says of a file, but for when it was last read. Whatever changes its content,
/// permissions or name list changes `changed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StatAttributes {
    /// The device that it is on, as makedev(3) makes it.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Kind and permissions.
    pub mode: u32,
    /// How many names it has.
    pub links: u64,
    /// Its user.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// Which device it is, if it is one.
    pub is_device: u64,
    /// In bytes.
    pub size: u64,
    /// When its content was last changed: seconds and nanoseconds.
    pub modified: (i64, u32),
    /// When anything of it was last changed.
    pub changed: (i64, u32),
}

/// rustix's structure and libc's are the same one of the kernel.
macro_rules! from_statx {
    ($asked:ident) => {
        StatAttributes {
            device: rustix::fs::makedev($asked.stx_dev_major, $asked.stx_dev_minor),
            inode: $asked.stx_ino,
            mode: $asked.stx_mode.into(),
            links: $asked.stx_nlink.into(),
            user: $asked.stx_uid,
            group: $asked.stx_gid,
            is_device: rustix::fs::makedev($asked.stx_rdev_major, $asked.stx_rdev_minor),
            size: $asked.stx_size,
            modified: ($asked.stx_mtime.tv_sec, $asked.stx_mtime.tv_nsec),
            changed: ($asked.stx_ctime.tv_sec, $asked.stx_ctime.tv_nsec),
        }
    };
}

impl StatAttributes {
    /// Asks for those of what a path leads to, or of a link itself. A network filesystem asks its
    /// server.
    ///
    /// # Errors
    /// Those of statx(2).
    pub fn of(path: &CStr, follow: bool) -> Result<StatAttributes, Errno> {
        let link = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let flags = link | AtFlags::STATX_FORCE_SYNC | AtFlags::NO_AUTOMOUNT;
        let asked = rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS)?;
        Ok(from_statx!(asked))
    }

    /// From a `struct statx` as a process was given it.
    pub(super) fn of_raw_statx(asked: &libc::statx) -> StatAttributes {
        from_statx!(asked)
    }

    /// From the kernel's `struct stat` as a process was given it.
    // Not on every processor is it of the same width.
    #[allow(clippy::useless_conversion)]
    pub(super) fn of_raw(stat: &libc::stat) -> StatAttributes {
        StatAttributes {
            device: stat.st_dev,
            inode: stat.st_ino,
            mode: stat.st_mode,
            links: stat.st_nlink.into(),
            user: stat.st_uid,
            group: stat.st_gid,
            is_device: stat.st_rdev,
            size: stat.st_size.unsigned_abs(),
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime, stat.st_ctime_nsec as u32),
        }
    }

    /// Whether it is a regular file or a directory: nothing else has a content that its times tell
    /// of.
    pub fn has_content(&self) -> bool {
        matches!(self.mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR)
    }
}
