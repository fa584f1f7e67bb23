//! An overlay image is an ext3 filesystem: to e2fsck, to the kernel, to fuse2fs, and with the
//! measures that mke2fs gives one.

#![allow(clippy::unwrap_used)] // A test program; clippy knows only its #[test] functions as such.

mod support;

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use image_format::ReadAt;
use image_format::ext3::{Ext3AsSquash, Ext3Error, Ext3Facts, Ext3Overlay, create};
use image_format::squash::{NodeKind, SquashImage};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

fn overlay(size: u64) -> Ext3Overlay {
    Ext3Overlay {
        size,
        owner: (65_534, 70_000),
        directories: Vec::new(),
        created: 1_700_000_000,
        sparse: true,
    }
}

fn made(directory: &TempDir, overlay: &Ext3Overlay) -> std::path::PathBuf {
    let path = directory.path().join("overlay.img");
    create(&File::create(&path).unwrap(), overlay).unwrap();
    path
}

/// What a tool says on standard output; it must end well.
fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {words:?}: {text}{output:?}");
    text
}

fn check(image: &Path) {
    said("e2fsck", &["-fn", image.to_str().unwrap()]);
}

/// The lines of dumpe2fs about the whole filesystem and its groups, but those that tell one
/// image from another made with the same measures.
fn measures(image: &Path) -> Vec<String> {
    let differ = ["UUID", "Hash Seed", "created:", "write time", "Last checked", "Reserved block"];
    let text = said("dumpe2fs", &[image.to_str().unwrap()]);
    let lines = text.lines().filter(|line| !differ.iter().any(|word| line.contains(word)));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_measures_are_those_of_mke2fs() {
    // The last ones: a rest of a group that is used, and one that is too small to be.
    let rest = 128 * MIB + 600 * 4096;
    let sizes = [64 * MIB, 511 * MIB, 1024 * MIB, 5000 * MIB, 40_000 * MIB, 1024 * MIB + rest];
    for size in sizes.into_iter().chain([1024 * MIB + 500 * 4096, 200_000 * MIB + 4096]) {
        let directory = TempDir::new().unwrap();
        let ours = made(&directory, &overlay(size));
        // It reads every table of inodes.
        if size < 10_000 * MIB {
            check(&ours);
        }
        let theirs = directory.path().join("theirs.img");
        File::create(&theirs).unwrap().set_len(size).unwrap();
        let root = directory.path().join("root");
        for name in ["upper", "work"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let root = root.to_str().unwrap();
        let options = ["-q", "-t", "ext3", "-b", "4096", "-m", "0", "-d", root];
        said("mke2fs", &[&options[..], &[theirs.to_str().unwrap()]].concat());
        let (ours, theirs) = (measures(&ours), measures(&theirs));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{size}");
        }
        assert_eq!(ours.len(), theirs.len(), "{size}");
    }
}

#[test]
fn every_size_is_clean_to_e2fsck() {
    // Around where one more group, and one more indirect block, is needed.
    for blocks in [16_384, 32_767, 32_769, 33_500, 65_536 + 700, 131_071, 600_003] {
        let directory = TempDir::new().unwrap();
        check(&made(&directory, &overlay(blocks * 4096 + 17)));
    }
}

#[test]
fn a_terabyte_takes_little_room_while_it_is_sparse() {
    use std::os::unix::fs::MetadataExt;
    let directory = TempDir::new().unwrap();
    let image = made(&directory, &overlay(MIB * MIB));
    let there = image.metadata().unwrap();
    assert_eq!(there.len(), MIB * MIB);
    assert!(there.blocks() * 512 < 100 * MIB, "{} bytes", there.blocks() * 512);
}

#[test]
fn an_image_that_is_not_sparse_has_its_blocks() {
    use std::os::unix::fs::MetadataExt;
    let directory = TempDir::new().unwrap();
    let image = made(&directory, &Ext3Overlay { sparse: false, ..overlay(64 * MIB) });
    assert!(image.metadata().unwrap().blocks() * 512 >= 64 * MIB);
    check(&image);
}

#[test]
fn the_same_wishes_make_the_same_bytes_and_other_wishes_another_number() {
    let directories = [TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap()];
    let wish = overlay(64 * MIB);
    let [one, two] = [0, 1].map(|at: usize| fs::read(made(&directories[at], &wish)).unwrap());
    assert!(one == two);
    let later = made(&directories[2], &Ext3Overlay { created: 1_700_000_001, ..wish });
    let uuid = |image: &[u8]| Ext3Facts::read(image).unwrap().unwrap().uuid;
    assert_ne!(uuid(&one), uuid(&fs::read(later).unwrap()));
}

#[test]
fn debugfs_shows_the_directories_and_whose_they_are() {
    let directory = TempDir::new().unwrap();
    let directories = vec!["/opt/env/lib".into(), "opt/other".into()];
    let image = made(&directory, &Ext3Overlay { directories, ..overlay(64 * MIB) });
    check(&image);
    let image = image.to_str().unwrap();
    let list = |path: &str| said("debugfs", &["-R", &format!("ls -l {path}"), image]);
    for (path, name) in [
        ("/", "upper"),
        ("/", "work"),
        ("/", "lost+found"),
        ("/upper", "opt"),
        ("/upper/opt", "other"),
        ("/upper/opt/env", "lib"),
    ] {
        let text = list(path);
        let line = text.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        let mode = if name == "lost+found" { "40700" } else { "40755" };
        assert_eq!(words[1..2], [mode], "{line}");
        assert_eq!(words[3..5], ["65534", "70000"], "{line}");
        assert!(line.contains("14-Nov-2023"), "{line}");
    }
}

#[test]
fn many_directories_with_long_names_fill_more_than_a_block() {
    let directory = TempDir::new().unwrap();
    let directories = (0..200).map(|number| format!("{number:0>250}").into()).collect();
    let image = made(&directory, &Ext3Overlay { directories, ..overlay(64 * MIB) });
    check(&image);
    let list = said("debugfs", &["-R", "ls -p /upper", image.to_str().unwrap()]);
    assert_eq!(list.lines().filter(|line| line.contains("/040755/")).count(), 202);
}

#[test]
fn the_kernel_mounts_it_and_what_is_written_is_there_the_next_time() {
    let directory = TempDir::new().unwrap();
    let image = made(&directory, &overlay(200 * MIB));
    let script = r#"
        mkdir -p "$2"
        mount -o loop -t ext3 "$1" "$2"
        mkdir "$2"/upper/d
        for n in $(seq 2000); do echo $n >"$2"/upper/d/file-with-a-rather-long-name-$n; done
        head -c 60000000 /dev/urandom >"$2"/upper/big
        sha256sum <"$2"/upper/big
        umount "$2"
        mount -o loop -t ext3 "$1" "$2"
        sha256sum <"$2"/upper/big
        ls "$2"/upper/d | wc -l
        umount "$2""#;
    let place = directory.path().join("mounted");
    let words = ["-m", "sh", "-ec", script, "sh", image.to_str().unwrap()];
    let text = said("unshare", &[&words[..], &[place.to_str().unwrap()]].concat());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], lines[1]);
    assert_eq!(lines[2], "2000");
    check(&image);
}

#[test]
fn fuse2fs_mounts_it() {
    let directory = TempDir::new().unwrap();
    let image = made(&directory, &overlay(64 * MIB));
    let script = r#"
        mkdir -p "$2"
        fuse2fs "$1" "$2"
        echo kept >"$2"/upper/file
        umount "$2"
        while pgrep -f "^fuse2fs $1" >/dev/null; do sleep 0.05; done"#;
    let place = directory.path().join("mounted");
    let words = ["-m", "sh", "-ec", script, "sh", image.to_str().unwrap()];
    said("unshare", &[&words[..], &[place.to_str().unwrap()]].concat());
    check(&image);
    let text = said("debugfs", &["-R", "cat /upper/file", image.to_str().unwrap()]);
    assert_eq!(text, "kept\n");
}

#[test]
fn it_can_grow() {
    let directory = TempDir::new().unwrap();
    let image = made(&directory, &overlay(1024 * MIB));
    let path = image.to_str().unwrap();
    said("resize2fs", &[path, "3G"]);
    check(&image);
}

#[test]
fn what_cannot_be_is_refused() {
    let directory = TempDir::new().unwrap();
    let file = File::create(directory.path().join("x")).unwrap();
    let refused = |overlay: &Ext3Overlay| create(&file, overlay).unwrap_err();
    assert!(matches!(refused(&overlay(64 * MIB - 1)), Ext3Error::Size(_)));
    assert!(matches!(refused(&overlay(u64::MAX)), Ext3Error::Size(_)));
    let with = |directory: String| Ext3Overlay {
        directories: vec![directory.into()],
        ..overlay(64 * MIB)
    };
    assert!(matches!(refused(&with("../out".into())), Ext3Error::NotBelowUpper(_)));
    assert!(matches!(refused(&with("x".repeat(256))), Ext3Error::LongName(_)));
    assert!(matches!(refused(&with("x/".repeat(1000))), Ext3Error::TooManyDirectories(_)));
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
