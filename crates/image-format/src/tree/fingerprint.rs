//! Whether the sources of an image are still what they were.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{FileNodeKind, FileTree, ImageLayout, ScanOptions};
use crate::SquashWriteError;

/// What the sources of an image looked like: enough to see that one was edited, added or taken
/// away, without reading any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprint {
    /// Files, directories and links.
    pub entries: u64,
    /// The sum of the files' sizes, each name of a file for itself.
    pub bytes: u64,
    /// When the newest was changed, in seconds since 1970.
    pub newest: u32,
    /// SHA-256 over all paths, types, modes, sizes, times and links' targets.
    pub sha256: String,
}

impl Fingerprint {
    /// What the paths of a layout look like now. Reads all directories and attributes, with this
    /// many threads.
    ///
    /// # Errors
    /// Where something cannot be read, or is a socket.
    pub fn now(layout: &ImageLayout, readers: usize) -> Result<Fingerprint, SquashWriteError> {
        let wanted = ScanOptions {
            readers,
            xattrs: false,
            acls: false,
            skip_unreadable: true,
            skip_special: true,
        };
        Ok(FileTree::scan(layout.clone(), wanted)?.fingerprint())
    }
}

impl FileTree {
    /// What the sources looked like.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        let (mut entries, mut bytes) = (0, 0);
        // What lies beside the packed paths may change.
        for node in self.nodes.iter().filter(|node| !node.is_above) {
            let (what, size, text): (u8, u64, &[u8]) = match &node.kind {
                FileNodeKind::Directory(children) => (b'd', children.len() as u64, b""),
                FileNodeKind::File { size, .. } => (b'f', *size, b""),
                FileNodeKind::Symlink(target) => (b'l', target.len() as u64, target),
                FileNodeKind::CharDevice(number) => (b'c', u64::from(*number), b""),
                FileNodeKind::BlockDevice(number) => (b'b', u64::from(*number), b""),
                FileNodeKind::Fifo => (b'p', 0, b""),
                FileNodeKind::Socket => (b's', 0, b""),
            };
            entries += 1;
            bytes += if what == b'f' { size } else { 0 };
            // The nesting is told by the number of what is in a directory.
            hash.update([what]);
            hash.update((node.name.len() as u64).to_le_bytes());
            hash.update(&node.name);
            hash.update(size.to_le_bytes());
            hash.update(text);
            hash.update(node.attributes.mode.to_le_bytes());
            hash.update(node.attributes.mtime.0.to_le_bytes());
            hash.update(node.attributes.mtime.1.to_le_bytes());
        }
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Fingerprint { entries, bytes, newest: self.newest(), sha256 }
    }
}
