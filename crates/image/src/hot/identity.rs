//! Which file a hot part was taken from, and which state of it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use sha2::{Digest, Sha256};

/// An image's file as every node of a job sees it: its inode, size, and times. The number of its
/// device is another one on each node. An image that is built again is another file; one that is
/// written into has another time of change, which nobody can set.
pub(super) fn identity(there: &Metadata) -> String {
    let state = format!(
        "{} {} {}.{} {}.{}",
        there.ino(),
        there.len(),
        there.mtime(),
        there.mtime_nsec(),
        there.ctime(),
        there.ctime_nsec()
    );
    hex(&Sha256::digest(state)[..16])
}

/// Bytes as text.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
