//! Reads any bytes as an ext2, ext3 or ext4 filesystem, and asks for all that a FUSE server asks for.
//!
//! The first byte chooses how the rest is taken: as a filesystem, or as changes to a good one.

#![no_main]

mod asked_image;

use std::process::Command;
use std::sync::LazyLock;

use image_format::ext3::Ext3AsSquash;
use image_format::squash::SquashImage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let bytes = match GOOD.get(usize::from(choice % 8)) {
        Some(good) => asked_image::changed(good, rest),
        None => rest.to_vec(),
    };
    let Ok(shown) = Ext3AsSquash::open(Box::new(bytes)) else { return };
    let image = SquashImage::new(Box::new(shown), 1 << 20).expect("its tables are becalm's own");
    asked_image::ask(&image);
});

/// One good filesystem of each kind, as mke2fs makes it.
static GOOD: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let directory = std::env::temp_dir().join(format!("ext3-fuzz-{}", std::process::id()));
    let source = directory.join("source");
    for number in 0..60 {
        let below = source.join(format!("upper/directory {number}"));
        std::fs::create_dir_all(&below).expect("a directory");
        std::fs::write(below.join("file"), format!("file {number} ").repeat(number * 100))
            .expect("a file");
    }
    let _ = std::os::unix::fs::symlink("directory 1", source.join("upper/link"));
    let _ = std::os::unix::fs::symlink("x".repeat(200), source.join("upper/long link"));
    // With checksums of metadata nearly every change ends at one.
    let plain = "^metadata_csum";
    let kinds = [
        ["ext2", "1024", plain],
        ["ext3", "4096", plain],
        ["ext4", "1024", plain],
        ["ext4", "4096", plain],
        ["ext4", "1024", "metadata_csum"],
    ];
    let images = kinds.map(|kind| {
        let image = directory.join(kind.concat());
        let mut make = Command::new("mke2fs");
        make.args(["-q", "-t", kind[0], "-b", kind[1], "-O", kind[2], "-d"]).arg(&source).arg(&image);
        assert!(make.arg("8M").status().expect("mke2fs is there").success(), "{kind:?}");
        std::fs::read(&image).expect("the filesystem")
    });
    let _ = std::fs::remove_dir_all(&directory);
    images.to_vec()
});
