//! What a FUSE server asks of an image, and images in which bytes are changed.

use std::collections::HashSet;
use std::ops::ControlFlow;

use image_format::squash::{ListingPosition, NodeKind, SquashEntry, SquashImage};

/// How much is asked of one image: a listing may hold itself.
const MOST_NODES: usize = 300;

/// Asks for all that a server asks for.
pub fn ask(image: &SquashImage) {
    let mut seen = HashSet::new();
    let mut left = vec![image.root()];
    while let Some(node) = left.pop() {
        if seen.len() == MOST_NODES || !seen.insert(node) {
            continue;
        }
        let Ok(about) = image.attributes(node) else { continue };
        let _ = (image.xattrs(node), image.target(node), image.lookup(node, b"directory 17"));
        match about.kind {
            NodeKind::Directory => {
                let mut each = |entry: SquashEntry| {
                    assert!(!entry.name.is_empty() && !entry.name.contains(&b'/'));
                    left.push(entry.node);
                    if left.len() < MOST_NODES {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                };
                let _ = image.list(node, ListingPosition::default(), &mut each);
                let _ = image.list(node, ListingPosition(u64::from(about.mtime)), &mut |_| {
                    ControlFlow::Break(())
                });
            }
            NodeKind::File => {
                let Ok(file) = image.open(node) else { continue };
                let mut buffer = vec![0; 70_000];
                for offset in [0, 1000, about.size.saturating_sub(10), u64::MAX - 5] {
                    if let Ok(length) = image.read_at(&file, offset, &mut buffer) {
                        assert!(length as u64 <= about.size);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A copy in which bytes are changed: position in three bytes, byte, position, byte…
pub fn changed(good: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for change in changes.chunks_exact(4) {
        let at = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at) {
            *byte = change[3];
        }
    }
    bytes
}
