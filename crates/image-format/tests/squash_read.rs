//! Images of mksquashfs, read by becalm; and what becalm makes of parts of one.

#![allow(clippy::unwrap_used)]

mod support;

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use image_format::squash::{ListingPosition, SquashImage, SquashOptions, SquashReadError};
use support::{awkward, large, pack, read, run, seen};

fn mksquashfs(source: &Path, image: &Path, options: &[&str]) {
    let mut args: Vec<&OsStr> = vec![source.as_ref(), image.as_ref()];
    args.extend(["-noappend", "-quiet", "-no-progress"].map(OsStr::new));
    args.extend(options.iter().map(OsStr::new));
    run("mksquashfs", &args);
}

#[test]
fn images_of_mksquashfs_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    awkward(&source);
    large(&source.join("large"), 3000);
    let before = seen(&source);
    for options in [
        &["-comp", "gzip"][..],
        &["-comp", "lz4"],
        &["-comp", "lz4", "-Xhc"],
        &["-comp", "zstd", "-b", "1M"],
        &["-comp", "zstd", "-always-use-fragments", "-no-exports"],
        &["-comp", "zstd", "-no-fragments", "-no-duplicates"],
        &["-noI", "-noD", "-noF", "-noX"],
    ] {
        mksquashfs(&source, &image, options);
        let found = read(&SquashImage::open_path(&image).unwrap());
        for (path, line) in &before {
            assert_eq!(Some(line), found.get(path), "{options:?} {}", path.display());
        }
        assert_eq!(before.len(), found.len());
    }
}

#[test]
fn a_compressor_that_is_not_known_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    mksquashfs(&source, &image, &["-comp", "xz"]);
    let error = SquashImage::open_path(&image).err().unwrap();
    assert!(matches!(error, SquashReadError::Unsupported("xz")), "{error}");
}

#[test]
fn an_image_in_a_part_of_a_file_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    awkward(&source);
    let built = pack(&source, &image, &SquashOptions::default());
    let mut bytes = vec![0xaa; 12_345];
    bytes.extend(fs::read(&image).unwrap());
    bytes.extend([0xbb; 100]);
    fs::write(&image, bytes).unwrap();
    let file = fs::File::open(&image).unwrap();
    let part = SquashImage::open_part(file, 12_345, built.image_bytes).unwrap();
    assert_eq!(read(&part), seen(&source));
}

#[test]
fn a_cache_too_small_for_one_block_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    awkward(&source);
    pack(&source, &image, &SquashOptions::default());
    let file = fs::File::open(&image).unwrap();
    let small = SquashImage::new(Box::new(file), 0).unwrap();
    assert_eq!(read(&small), seen(&source));
}

#[test]
fn threads_share_an_image() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    awkward(&source);
    pack(&source, &image, &SquashOptions::default());
    let file = fs::File::open(&image).unwrap();
    let image = SquashImage::new(Box::new(file), 1 << 20).unwrap();
    let expected = seen(&source);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(read(&image) == expected));
        }
    });
}

#[test]
fn an_image_that_is_cut_is_an_error_at_every_length() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "text ".repeat(10_000)).unwrap();
    pack(&source, &image, &SquashOptions::default());
    let whole = fs::read(&image).unwrap();
    let used = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
    for length in 0..used {
        assert!(SquashImage::of_bytes(whole[..length].to_vec()).is_err(), "{length}");
    }
    assert!(SquashImage::of_bytes(whole[..used].to_vec()).is_ok());
}

/// The same numbers each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % end
    }
}

/// Asks for all that a FUSE server asks for, of so many nodes at most: a directory may hold itself.
fn ask(image: &SquashImage) {
    let mut left = vec![image.root()];
    let mut buffer = vec![0; 50_000];
    for _ in 0..60 {
        let Some(node) = left.pop() else { break };
        let Ok(about) = image.attributes(node) else { continue };
        let _ = (image.xattrs(node), image.target(node), image.lookup(node, b"small"));
        let mut names = 0;
        let _ = image.list(node, ListingPosition::default(), &mut |entry| {
            left.push(entry.node);
            names += 1;
            if names < 100 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if let Ok(file) = image.open(node) {
            for offset in [0, 5000, about.size.saturating_sub(10), u64::MAX - 5] {
                let _ = image.read_at(&file, offset, &mut buffer);
            }
        }
    }
}

#[test]
fn a_damaged_image_gives_an_error_or_an_answer_in_time() {
    let rounds = std::env::var("SQUASH_DAMAGED").map_or(4000, |rounds| rounds.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir_all(source.join("directory")).unwrap();
    for name in ["small", "directory/a", "directory/b", "directory/c"] {
        fs::write(source.join(name), name.repeat(2000)).unwrap();
    }
    let mut xattr = ["-n", "user.a", "-v", "b"].map(OsStr::new).to_vec();
    let small = source.join("small");
    xattr.push(small.as_os_str());
    run("setfattr", &xattr);
    // Where nothing is compressed, each byte that is changed is one that is looked at.
    let bare: &[&str] = &["-noI", "-noD", "-noF", "-noX", "-b", "4096", "-nopad"];
    let mut images = Vec::new();
    for options in [bare, &["-comp", "zstd"], &["-comp", "lz4"], &["-comp", "gzip"]] {
        mksquashfs(&source, &image, options);
        images.push(fs::read(&image).unwrap());
    }
    let mut numbers = Numbers(1);
    let mut opened = 0;
    for round in 0..rounds {
        let good = &images[if round % 2 == 0 { 0 } else { round % images.len() }];
        let mut bytes = good.clone();
        for _ in 0..=numbers.below(4) {
            // Small and large numbers break more than others.
            let value = [0, 1, 0x7f, 0x80, 0xff, numbers.below(256)][numbers.below(6)];
            // The tables are at the end, the superblock at the start.
            let at = match numbers.below(3) {
                0 => numbers.below(96),
                1 => good.len() - 1 - numbers.below(good.len().min(1500)),
                _ => numbers.below(good.len()),
            };
            bytes[at] = value as u8;
        }
        if let Ok(image) = SquashImage::of_bytes(bytes) {
            opened += 1;
            ask(&image);
        }
    }
    assert!(opened > rounds / 10, "{opened}");
}
