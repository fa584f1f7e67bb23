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
        &["-comp", "lzo"],
        &["-comp", "lzo", "-Xalgorithm", "lzo1x_1", "-b", "4096"],
        &["-comp", "lzma"],
        &["-comp", "lzma", "-b", "1M"],
        &["-comp", "xz"],
        &["-comp", "xz", "-b", "1M", "-Xdict-size", "8192"],
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

/// What mksquashfs's filters for machine code turn, one a kind of processor.
#[test]
fn machine_code_that_was_filtered_is_what_unsquashfs_makes_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    let theirs = directory.path().join("theirs");
    fs::create_dir(&source).unwrap();
    // Of a length that leaves the filters some bytes at the end.
    let mut program = fs::read(std::env::current_exe().unwrap()).unwrap();
    program.truncate(700_003);
    fs::write(source.join("program"), &program).unwrap();
    for filter in ["x86", "arm", "armthumb", "powerpc", "sparc", "ia64", "x86,arm"] {
        let options = ["-comp", "xz", "-Xbcj", filter];
        mksquashfs(&source, &image, &options);
        let unsquashed: [&OsStr; 6] = ["-f", "-q", "-n", "-d"]
            .map(OsStr::new)
            .into_iter()
            .chain([theirs.as_ref(), image.as_ref()])
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        run("unsquashfs", &unsquashed);
        assert_eq!(fs::read(theirs.join("program")).unwrap(), program);
        let read = read(&SquashImage::open_path(&image).unwrap());
        for (path, line) in seen(&theirs) {
            assert_eq!(Some(&line), read.get(&path), "{filter} {}", path.display());
        }
    }
}

/// An xz stream says how much memory it wants: 4 GiB here, for a block of 8 KiB.
#[test]
fn a_block_gets_no_more_memory_than_it_can_need() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "text ".repeat(10_000)).unwrap();
    mksquashfs(&source, &image, &["-comp", "xz"]);
    let mut bytes = fs::read(&image).unwrap();
    let before = read(&SquashImage::of_bytes(bytes.clone()).unwrap());
    let mut changed = 0;
    for at in 0..bytes.len() - 64 {
        if !bytes[at..].starts_with(b"\xfd7zXZ\0") {
            continue;
        }
        // A block's header: in it LZMA2, and in one byte the size of its dictionary.
        let end = at + 12 + (usize::from(bytes[at + 12]) + 1) * 4 - 4;
        let header = &mut bytes[at + 12..end];
        let filter = header.windows(2).position(|pair| pair == [0x21, 1]).unwrap();
        header[filter + 2] = 40;
        let sum = crc32fast::hash(header).to_le_bytes();
        bytes[end..end + 4].copy_from_slice(&sum);
        changed += 1;
    }
    assert!(changed > 0, "{changed}");
    let most = address_space();
    assert_eq!(read(&SquashImage::of_bytes(bytes).unwrap()), before);
    assert!(address_space() < most + (1 << 30), "{most} {}", address_space());
}

/// Bytes that this process has ever had mapped at once.
fn address_space() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    peak.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_compressor_that_is_not_known_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    mksquashfs(&source, &image, &["-comp", "xz"]);
    let mut bytes = fs::read(&image).unwrap();
    for number in [0, 7, 0xffff_u16] {
        bytes[20..22].copy_from_slice(&number.to_le_bytes());
        let error = SquashImage::of_bytes(bytes.clone()).err().unwrap();
        assert!(matches!(error, SquashReadError::Unsupported("something unknown")), "{error}");
    }
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
    for compressor in ["gzip", "lzma", "lzo", "xz", "lz4", "zstd"] {
        mksquashfs(&source, &image, &["-comp", compressor]);
        let whole = fs::read(&image).unwrap();
        let used = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
        for length in 0..used {
            assert!(SquashImage::of_bytes(whole[..length].to_vec()).is_err(), "{length}");
            // What is only as long as it should be.
            let filled = [&whole[..length], &vec![0; used - length][..]].concat();
            if let Ok(image) = SquashImage::of_bytes(filled) {
                ask(&image);
            }
        }
        assert!(SquashImage::of_bytes(whole[..used].to_vec()).is_ok());
    }
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
    for options in [
        bare,
        &["-comp", "zstd"],
        &["-comp", "lz4"],
        &["-comp", "gzip"],
        &["-comp", "xz"],
        &["-comp", "lzo"],
        &["-comp", "lzma"],
    ] {
        mksquashfs(&source, &image, options);
        images.push(fs::read(&image).unwrap());
    }
    let mut numbers = Numbers(1);
    let mut opened = 0;
    for round in 0..rounds {
        let good = &images[if round % 2 == 0 { 0 } else { round / 2 % images.len() }];
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
