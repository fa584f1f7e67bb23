//! What an ordinary user is shown of an ext2, ext3 or ext4 filesystem that mke2fs made: all of it, or why not.

#![allow(clippy::unwrap_used)] // A test program; clippy knows only its #[test] functions as such.

mod support;

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use image_format::ReadAt;
use image_format::ext3::Ext3AsSquash;
use image_format::squash::{NodeKind, SquashImage};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// What a tool says on standard output; it must end well.
fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {words:?}: {text}{output:?}");
    text
}

/// What mke2fs makes of a directory.
fn filled(directory: &TempDir, source: &Path, kind: &str, options: &[&str]) -> std::path::PathBuf {
    let image = directory.path().join("filled.img");
    let _ = fs::remove_file(&image);
    File::create(&image).unwrap().set_len(64 * MIB).unwrap();
    let words = ["-q", "-F", "-t", kind, "-d", source.to_str().unwrap()];
    said("mke2fs", &[&words[..], options, &[image.to_str().unwrap()]].concat());
    image
}

fn shown(image: &Path) -> Result<SquashImage, String> {
    let file = File::open(image).unwrap();
    let shown = Ext3AsSquash::open(Box::new(file)).map_err(|error| error.to_string())?;
    SquashImage::new(Box::new(shown), 1 << 20).map_err(|error| error.to_string())
}

#[test]
fn every_file_of_a_filesystem_is_shown_as_it_is() {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source");
    support::awkward(&source);
    support::large(&source.join("large"), 900);
    // Through a single and a double indirect block, with holes, and of a length of its own.
    let mut long = fs::File::create(source.join("long")).unwrap();
    for at in [0u64, 5, 50, 1100, 3000] {
        long.seek(SeekFrom::Start(at * 4096)).unwrap();
        long.write_all(format!("at {at} ").repeat(1000).as_bytes()).unwrap();
    }
    let before = support::seen(&source);
    for (kind, options) in [
        ("ext3", &["-b", "4096"][..]),
        ("ext2", &["-b", "4096", "-I", "128"]),
        ("ext4", &["-b", "4096", "-O", "^metadata_csum"]),
        ("ext4", &["-b", "4096", "-O", "64bit,metadata_csum"]),
    ] {
        let image = filled(&directory, &source, kind, options);
        let found = support::read(&shown(&image).unwrap());
        for (path, line) in &before {
            // A root of its own.
            if path.as_os_str().is_empty() || path == Path::new("/") {
                continue;
            }
            assert_eq!(Some(line), found.get(path), "{kind} {options:?} {}", path.display());
        }
        assert_eq!(before.len(), found.len(), "{kind} {options:?}");
    }
}

#[test]
fn small_blocks_are_read_too() {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source");
    fs::create_dir(&source).unwrap();
    support::large(&source.join("large"), 300);
    fs::write(source.join("long"), "a line\n".repeat(200_000)).unwrap();
    let before = support::seen(&source);
    let found =
        support::read(&shown(&filled(&directory, &source, "ext3", &["-b", "1024"])).unwrap());
    for (path, line) in before.iter().filter(|(path, _)| path.file_name().is_some()) {
        assert_eq!(Some(line), found.get(path), "{}", path.display());
    }
}

#[test]
fn an_overlay_shows_what_is_in_upper_and_hides_what_it_hid() {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source");
    fs::create_dir_all(source.join("upper/kept/inner")).unwrap();
    fs::create_dir_all(source.join("work")).unwrap();
    fs::write(source.join("upper/kept/.wh..wh..opq"), "").unwrap();
    fs::write(source.join("upper/.wh.gone"), "").unwrap();
    fs::write(source.join("upper/new"), "new").unwrap();
    let image = shown(&filled(&directory, &source, "ext3", &[])).unwrap();
    assert!(image.find(Path::new("/upper")).unwrap().is_none());
    let kind = |path: &str| {
        let node = image.find(Path::new(path)).unwrap().unwrap();
        let attributes = image.attributes(node).unwrap();
        (attributes.kind, attributes.device, image.xattrs(node).unwrap())
    };
    assert_eq!(kind("/gone"), (NodeKind::CharDevice, 0, Vec::new()));
    assert_eq!(kind("/new").0, NodeKind::File);
    let mark = |name: &str| (name.as_bytes().to_vec(), b"y".to_vec());
    let marks = vec![mark("trusted.overlay.opaque"), mark("user.overlay.opaque")];
    let mut found = kind("/kept").2;
    found.sort();
    assert_eq!(found, marks);
    assert!(image.find(Path::new("/kept/.wh..wh..opq")).unwrap().is_none());
}

#[test]
fn one_that_was_not_unmounted_is_refused_with_what_to_do() {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source");
    fs::create_dir(&source).unwrap();
    let image = filled(&directory, &source, "ext3", &[]);
    assert!(shown(&image).is_ok());
    let clean = fs::read(&image).unwrap();
    // Its journal is to be replayed; it is still mounted.
    for (at, value) in [(1024 + 96, 0x6), (1024 + 58, 0)] {
        let mut bytes = clean.clone();
        bytes[at] = value;
        fs::write(&image, bytes).unwrap();
        let why = shown(&image).err().unwrap();
        assert!(why.contains("not unmounted cleanly") && why.contains("e2fsck -p"), "{why}");
    }
}

#[test]
fn a_damaged_one_is_an_error_or_an_answer_in_time() {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source");
    support::awkward(&source);
    for (kind, options) in [("ext3", &["-b", "4096"][..]), ("ext4", &["-b", "4096"])] {
        let image = filled(&directory, &source, kind, options);
        let bytes = fs::read(&image).unwrap();
        // What is not nothing is looked at.
        let used: Vec<usize> = (1024..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        let mut state = 7u64;
        let mut below = |end: usize| {
            state =
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            (state >> 33) as usize % end
        };
        let mut opened = 0;
        for _ in 0..400 {
            let changes: Vec<(usize, u8)> =
                (0..3).map(|_| (used[below(used.len())], below(256) as u8)).collect();
            let file = File::options().read(true).write(true).open(&image).unwrap();
            for (at, value) in &changes {
                file.write_all_at(&[*value], *at as u64).unwrap();
            }
            let changed = Ext3AsSquash::open(Box::new(file.try_clone().unwrap()));
            if let Ok(shown) = changed.map(|shown| SquashImage::new(Box::new(shown), 1 << 20)) {
                opened += usize::from(shown.is_ok());
            }
            for (at, _) in &changes {
                file.write_all_at(&[bytes[*at]], *at as u64).unwrap();
            }
        }
        assert!(opened > 20, "{kind} {opened}");
        // Cut off.
        for length in [0, 1000, 2048, 100_000, bytes.len() - 1] {
            assert!(
                Ext3AsSquash::open(Box::new(Bytes(bytes[..length].to_vec()))).is_err(),
                "{length}"
            );
        }
    }
}

/// Where a block of a file lies in an image, in bytes, and where its inode does.
fn place(image: &Path, path: &str) -> (usize, usize) {
    let debugfs = |request: &str| said("debugfs", &["-R", request, image.to_str().unwrap()]);
    let block = debugfs(&format!("bmap {path} 0")).trim().parse::<usize>().unwrap();
    // `Inode 12 is part of block group 0\n\tlocated at block 37, offset 0x0b00`
    let inode = debugfs(&format!("imap {path}"));
    let (_, inode) = inode.split_once("at block ").unwrap();
    let (table, offset) = inode.trim().split_once(", offset 0x").unwrap();
    let offset = usize::from_str_radix(offset, 16).unwrap();
    (block * 4096, table.parse::<usize>().unwrap() * 4096 + offset)
}

#[test]
fn metadata_without_its_checksum_is_damaged_and_without_sums_it_is_believed() {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source");
    fs::create_dir_all(source.join("sub")).unwrap();
    fs::write(source.join("sub/name"), "x".repeat(5000)).unwrap();
    // In so many pieces that their places do not fit the inode.
    let pieces = fs::File::create(source.join("sub/pieces")).unwrap();
    for at in 0..40 {
        pieces.write_all_at(b"x", at * 8192).unwrap();
    }
    // Sums by the number, and by what it once was; with the 128 bytes of an inode that have half of one.
    for (options, has_sums) in [
        (&["-b", "4096", "-O", "metadata_csum"][..], true),
        (&["-b", "4096", "-O", "metadata_csum,metadata_csum_seed"], true),
        (&["-b", "4096", "-O", "metadata_csum,^64bit,^extra_isize", "-I", "128"], true),
        (&["-b", "4096", "-O", "^metadata_csum"], false),
    ] {
        let image = filled(&directory, &source, "ext4", options);
        assert!(shown(&image).is_ok(), "{options:?}");
        let intact = fs::read(&image).unwrap();
        let (listing, of_sub) = place(&image, "/sub");
        let (content, inode) = place(&image, "/sub/name");
        let (_, pieces) = place(&image, "/sub/pieces");
        let name = intact[listing..].windows(4).position(|four| four == b"name").unwrap();
        let u32_at = |at: usize| u32::from_le_bytes(intact[at..at + 4].try_into().unwrap());
        // The tree of extents below the inode, behind whose first twelve bytes an index begins.
        assert_eq!(intact[pieces + 40 + 6], 1, "a tree of two levels");
        let tree = u32_at(pieces + 40 + 12 + 4) as usize * 4096;
        let one = |at: usize, sums: &str| {
            let mut bytes = intact.clone();
            bytes[at] ^= 1;
            fs::write(&image, bytes).unwrap();
            match (has_sums, shown(&image).err()) {
                (true, Some(why)) => assert!(why.contains(sums), "{options:?} {at}: {why}"),
                (false, None) => {}
                (_, why) => panic!("{options:?} {at}: {why:?}"),
            }
        };
        one(inode + 4, "damaged: an inode does not have its checksum"); // size
        one(inode, "damaged: an inode does not have its checksum"); // mode
        one(of_sub + 16, "damaged: an inode does not have its checksum"); // mtime
        one(listing + name, "damaged: a directory does not have its checksum");
        // A piece's place in the file: with its neighbours still in order.
        one(tree + 12 + 8, "damaged: a tree of extents does not have its checksum");
        one(1024 + 120, "damaged: its superblock does not have its checksum"); // its label
        one(4096 + 12, "damaged: a group's descriptor does not have its checksum"); // free blocks
        // Content has no sum: it is the file's own.
        let mut bytes = intact.clone();
        bytes[content] ^= 1;
        fs::write(&image, bytes).unwrap();
        assert!(shown(&image).is_ok(), "{options:?}");
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn the_index_of_a_large_directory_and_attributes_in_a_block_have_sums_too() {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source");
    support::large(&source.join("large"), 900);
    let image = filled(&directory, &source, "ext4", &["-b", "4096", "-O", "metadata_csum"]);
    // It is e2fsck that makes indices, and debugfs that makes a block of attributes.
    let path = image.to_str().unwrap();
    Command::new("e2fsck").args(["-fyD", path]).output().unwrap();
    let value = directory.path().join("value");
    fs::write(&value, "v".repeat(2000)).unwrap();
    let set = format!("ea_set -f {} /large user.long", value.display());
    said("debugfs", &["-w", "-R", &set, path]);
    let names = |image: &SquashImage| support::read(image).len();
    let found = names(&shown(&image).unwrap());
    assert!(found > 900, "{found}");
    let intact = fs::read(&image).unwrap();
    let (listing, inode) = place(&image, "/large");
    assert_eq!(intact[inode + 33] & 0x10, 0x10, "it is indexed");
    let block = u32::from_le_bytes(intact[inode + 104..inode + 108].try_into().unwrap()) as usize;
    assert!(block > 0, "its attribute has a block");
    for (at, said) in [
        (listing + 40, "a directory does not have its checksum"),
        (block * 4096 + 4000, "attributes do not have their checksum"),
    ] {
        let mut bytes = intact.clone();
        bytes[at] ^= 1;
        fs::write(&image, bytes).unwrap();
        let why = shown(&image).err().unwrap();
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn what_is_not_read_is_refused_by_its_name_and_is_not_called_damaged() {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source");
    support::awkward(&source);
    for (options, feature) in [
        (&["-b", "4096", "-O", "bigalloc"][..], "bigalloc"),
        (&["-b", "4096", "-O", "inline_data"], "inline_data"),
        (&["-b", "4096", "-O", "meta_bg,^resize_inode"], "meta_bg"),
    ] {
        let why = shown(&filled(&directory, &source, "ext4", options)).err().unwrap();
        assert!(why.contains(&format!("that is not read here ({feature})")), "{why}");
    }
    // Files that have blocks of others'.
    let image = filled(&directory, &source, "ext4", &["-b", "4096", "-O", "^metadata_csum"]);
    let mut bytes = fs::read(&image).unwrap();
    bytes[1024 + 101] |= 0x40;
    fs::write(&image, bytes).unwrap();
    let why = shown(&image).err().unwrap();
    assert!(why.contains("that is not read here (shared_blocks)"), "{why}");
}

#[test]
fn a_socket_and_every_other_kind_of_file_is_there() {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("source");
    fs::create_dir(&source).unwrap();
    let image = filled(&directory, &source, "ext4", &["-b", "4096", "-O", "metadata_csum"]);
    let path = image.to_str().unwrap();
    // An ordinary user can make them in an image. A kind is changed with its sum.
    for request in
        ["mknod pipe p", "mknod char c 1 3", "mknod block b 7 1", "mknod socket p", "mkdir sub"]
    {
        said("debugfs", &["-w", "-R", request, path]);
    }
    said("debugfs", &["-w", "-R", "set_inode_field socket mode 0140751", path]);
    let image = shown(&image).unwrap();
    let kind = |path: &str| {
        let node = image.find(Path::new(path)).unwrap().unwrap();
        let attributes = image.attributes(node).unwrap();
        (attributes.kind, attributes.device)
    };
    assert_eq!(kind("/socket"), (NodeKind::Socket, 0));
    assert_eq!(kind("/pipe"), (NodeKind::Fifo, 0));
    assert_eq!(kind("/char"), (NodeKind::CharDevice, 0x103));
    assert_eq!(kind("/block"), (NodeKind::BlockDevice, 0x701));
    assert_eq!(kind("/sub").0, NodeKind::Directory);
}

struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.0[..].read_exact_at(buffer, offset)
    }
}
