//! Reads any bytes as a squashfs image, and asks for all that a FUSE server asks for.
//!
//! The first byte chooses how the rest is taken: as an image, or, since a fuzzer does not find
//! compressed blocks that are right, as changes to a good one: position, byte, position, byte…

#![no_main]

mod asked_image;

use std::sync::LazyLock;

use image::Manifest;
use image::squash::{ImageOptions, build};
use image_format::squash::{Compression, SquashImage};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let bytes = match GOOD.get(usize::from(choice % 8)) {
        Some(good) => asked_image::changed(good, rest),
        None => rest.to_vec(),
    };
    if let Ok(image) = SquashImage::of_bytes(bytes) {
        let _ = (Manifest::of(&image), image.facts());
        asked_image::ask(&image);
    }
});

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
