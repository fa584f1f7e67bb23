//! The filesystem as the loader sees it: what it opens, stats and reads.
//!
//! A [`World`] answers for paths; the simulation asks nothing else of the machine. [`Disk`] is
//! the real one, [`PlannedWorld`] one with planned changes on top.

mod ahead;
mod disk;
mod listing;
mod overlay;
mod rights;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use disk::Disk;
pub use overlay::PlannedWorld;

use crate::{ElfError, ElfObject, Identity};

/// Which file a path leads to, as the loader tells files apart (elf/dl-fileid.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// An error number of the kernel, as in errno(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl fmt::Display for Errno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u16::try_from(self.0) {
            Ok(number) => out.write_str(&recording::errno_name(number)),
            Err(_) => write!(out, "error {}", self.0),
        }
    }
}

impl std::error::Error for Errno {}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// A file that could be opened.
#[derive(Debug, Clone)]
pub struct OpenedFile {
    /// Which file it is.
    pub id: FileId,
    /// Whether it has the set-user-id bit.
    pub set_user_id: bool,
    /// What was seen of it before it was read; none of what is only planned.
    pub seen: Option<remedy::Seen>,
    /// Whom it is for; nothing if it is no ELF file, or too short for one.
    pub identity: Option<Identity>,
    /// What it says of its search, or why it says nothing.
    pub object: Result<Arc<ElfObject>, Arc<ElfError>>,
}

/// What a directory's list says that an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Something else.
    Other,
    /// The filesystem does not say.
    Unknown,
}

/// The filesystem, as far as the loader asks for it. Paths are absolute; they are looked up as
/// the kernel does, through symbolic links.
pub trait World: Sync {
    /// What `open(path, O_RDONLY)` gives.
    ///
    /// # Errors
    /// The error number of the kernel.
    fn open(&self, path: &Path) -> Result<OpenedFile, Errno>;

    /// Whether `stat(path)` tells of a directory.
    ///
    /// # Errors
    /// The error number of the kernel.
    fn is_directory(&self, path: &Path) -> Result<bool, Errno>;

    /// The path without symbolic links, as the kernel says it in `/proc/self/exe`.
    ///
    /// # Errors
    /// The error number of the kernel.
    fn real_path(&self, path: &Path) -> Result<PathBuf, Errno>;

    /// The content of a small file that the loader reads: ld.so.cache, ld.so.preload.
    ///
    /// # Errors
    /// The error number of the kernel; `EISDIR` for a directory, `EINVAL` for a device or a pipe.
    fn bytes(&self, path: &Path) -> Result<Arc<[u8]>, Errno>;

    /// Whether the program at `path` would run with rights that this process does not have, so
    /// that its loader distrusts the environment (`AT_SECURE` in getauxval(3)).
    fn gains_rights(&self, path: &Path) -> bool {
        let _ = path;
        false
    }

    /// Whether it is known, without a call, that `directory` has no entry `name`. The loader asks
    /// for dozens of sub-directories that hardly a directory has.
    fn lacks(&self, directory: &Path, name: &OsStr) -> bool {
        let _ = (directory, name);
        false
    }

    /// All entries of `directory`, where they are known or found out by a call or two.
    fn entries_of(&self, directory: &Path) -> Option<Vec<(OsString, EntryKind)>> {
        let _ = directory;
        None
    }

    /// A hint: what the regular file at `path` is was found out already.
    fn learn(&self, path: &Path, known: &OpenedFile) {
        let _ = (path, known);
    }

    /// A hint: the loader is about to look into `directory` and the directories below it.
    fn expect(&self, directory: &Path) {
        let _ = directory;
    }
}
