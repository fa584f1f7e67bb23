//! Reads any bytes as a squashfs image, and asks for all that a FUSE server asks for.
//!
//! The first byte chooses how the rest is taken: as an image, or, since a fuzzer does not find
//! compressed blocks that are right, as changes to a good one: position, byte, position, byte…

#![no_main]

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use image::Manifest;
use image::squash::{ImageOptions, build};
use image_format::squash::{Compression, ListingPosition, NodeKind, SquashEntry, SquashImage};
use libfuzzer_sys::fuzz_target;

/// How much is asked of one image: a listing may hold itself.
const MOST_NODES: usize = 300;

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let bytes = match GOOD.get(usize::from(choice % 8)) {
        Some(good) => changed(good, rest),
        None => rest.to_vec(),
    };
    if let Ok(image) = SquashImage::of_bytes(bytes) {
        ask(&image);
    }
});

fn ask(image: &SquashImage) {
    let _ = (Manifest::of(image), image.facts());
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

/// One good image for each compressor: becalm's own, and mksquashfs's for those that becalm only reads.
static GOOD: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let directory = std::env::temp_dir().join(format!("squash-fuzz-{}", std::process::id()));
    let source = directory.join("source");
    let mut images = Compression::ALL
        .map(|compression| {
            let _ = std::fs::create_dir_all(source.join("directory"));
            for number in 0..60 {
                let text = format!("file {number} ").repeat(number * 10);
                let _ = std::fs::write(source.join(format!("directory/file {number}")), text);
                let _ = std::fs::create_dir_all(source.join(format!("directory {number}")));
            }
            let _ = std::os::unix::fs::symlink("directory", source.join("link"));
            let options = ImageOptions { compression, block_size: 4096, ..ImageOptions::default() };
            let image = directory.join(compression.name());
            let _ = build(std::slice::from_ref(&source), &image, &options);
            std::fs::read(&image).unwrap_or_default()
        })
        .to_vec();
    for options in [&["xz"][..], &["xz", "-Xbcj", "x86,arm"], &["lzo"], &["lzma"]] {
        let image = directory.join(options.join(""));
        let mut pack = std::process::Command::new("mksquashfs");
        pack.arg(&source).arg(&image).args(["-quiet", "-no-progress", "-b", "4096", "-comp"]);
        let done = pack.args(options).status().expect("mksquashfs is there");
        assert!(done.success(), "mksquashfs: {options:?}");
        images.push(std::fs::read(&image).unwrap_or_default());
    }
    let _ = std::fs::remove_dir_all(&directory);
    images
});

/// A copy in which bytes are changed.
fn changed(good: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at) {
            *byte = change[2];
        }
    }
    bytes
}
