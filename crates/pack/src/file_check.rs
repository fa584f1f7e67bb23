//! What of a file must be as it was: all that stat(2) tells of its content. Not its device, whose number
//! differs from mount to mount.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

/// What a file is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentIdentity {
    /// Inode.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// When its content changed: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// When its inode changed.
    pub changed: (i64, i64),
}

impl ContentIdentity {
    /// That of a file.
    pub fn of(about: &Metadata) -> ContentIdentity {
        ContentIdentity {
            inode: about.ino(),
            size: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        }
    }

    /// Whether it is the same but for a change of its name or mode since.
    pub fn is_content_of(&self, other: &ContentIdentity) -> bool {
        ContentIdentity { changed: other.changed, ..*self } == *other
    }
}
