//! What there is in a tree of modulefiles.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Cookie;

/// An error number of the system: 13 is EACCES.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemErrno(pub i32);

impl From<rustix::io::Errno> for SystemErrno {
    fn from(errno: rustix::io::Errno) -> SystemErrno {
        SystemErrno(errno.raw_os_error())
    }
}

impl std::fmt::Display for SystemErrno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

/// One name in a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeEntry {
    /// Its path from the modulepath on: `gcc/12.2`.
    #[serde(with = "super::path")]
    pub name: PathBuf,
    /// What it is.
    pub kind: TreeEntryKind,
    /// Whether the name is a symbolic link. All else is of what it leads to.
    pub is_link: bool,
    /// Of what the name leads to; none if that cannot be asked.
    pub stamp: Option<ChangeStamp>,
}

/// What a name is, to Modules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeEntryKind {
    /// A directory, whose entries follow.
    Directory {
        /// How many names are in it, `.` and `..` left out.
        names: u64,
    },
    /// A directory that is one of its own parents again, through a link. It is not entered.
    Loop {
        /// The directory that it leads back to, from the modulepath on; absolute, if the
        /// modulepath lies in it.
        #[serde(with = "super::path")]
        to: PathBuf,
    },
    /// A directory that Modules ignores by its name: `.git`, `CVS`…
    IgnoredDirectory,
    /// A file that `avail` evaluates: `.modulerc` or `.version`.
    Rc(Rc, Cookie),
    /// A file whose first bytes are read for a cookie. Without one it is a stray: read by every
    /// `avail`, and shown by none.
    File(Cookie),
    /// `.modulecache` at the top, which Modules reads from 5.3 on.
    Cache,
    /// A name that Modules ignores: `*~`, `*,v`, `#*#`.
    IgnoredFile,
    /// A FIFO, a socket or a device. To open a FIFO waits for ever.
    Special,
    /// A file or directory that may not be read, or of which nothing can be known.
    Unreadable {
        /// Whether it is a directory.
        is_directory: bool,
        /// Why.
        why: SystemErrno,
    },
    /// A link to nothing.
    Dangling,
}

/// A file that Modules evaluates on each `avail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rc {
    /// `.modulerc`
    Modulerc,
    /// `.version`
    Version,
}

/// What of a file changes when it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChangeStamp {
    /// The device.
    pub device: u64,
    /// The number of its inode there.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When its content changed, in nanoseconds since 1970.
    pub modified: i128,
    /// When anything of it changed, in nanoseconds since 1970.
    pub changed: i128,
    /// Its type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Its owner's number.
    pub user: u32,
    /// Its group's number.
    pub group: u32,
}

impl ChangeStamp {
    /// From what stat(2) says.
    pub fn of(stat: &rustix::fs::Stat) -> ChangeStamp {
        let time = |seconds: i64, nanos: u64| i128::from(seconds) * 1_000_000_000 + nanos as i128;
        ChangeStamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
            mode: stat.st_mode,
            user: stat.st_uid,
            group: stat.st_gid,
        }
    }

    /// Whether somebody but its owner may write it.
    pub fn others_may_write(&self) -> bool {
        self.mode & 0o022 != 0
    }

    /// Whether its permissions let everyone read it (of a directory: list and enter it). An ACL may
    /// say otherwise.
    pub fn everyone_may_read(&self) -> bool {
        let wanted = if self.mode & 0o170_000 == 0o040_000 { 0o555 } else { 0o444 };
        self.mode & wanted == wanted
    }
}

impl TreeEntry {
    /// The last part of its name.
    pub fn file_name(&self) -> &OsStr {
        self.name.file_name().unwrap_or_default()
    }

    /// Whether `avail -a` is needed to see it: its name, or a directory's on the way, begins with a
    /// dot.
    pub fn is_dotted(&self) -> bool {
        self.name.iter().any(|part| part.as_bytes().starts_with(b"."))
    }
}
