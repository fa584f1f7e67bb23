//! An overlay image is an ext3 filesystem: to e2fsck, to the kernel, to fuse2fs, and with the
//! measures that mke2fs gives one.

#![allow(clippy::unwrap_used)] // A test program; clippy knows only its #[test] functions as such.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use image_format::ext3::{Ext3Error, Ext3Facts, Ext3Overlay, create};
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
/// image from another made with the same measures. Which characters names are hashed as mke2fs
/// takes from its processor, and an image of ours has one answer on each.
fn measures(image: &Path) -> Vec<String> {
    let differ = ["UUID", "Hash Seed", "created:", "write time", "Last checked", "Reserved block"];
    let text = said("dumpe2fs", &[image.to_str().unwrap()]);
    let lines = text.lines().filter(|line| !differ.iter().any(|word| line.contains(word)));
    lines.map(|line| line.replace(" unsigned_directory_hash", " signed_directory_hash")).collect()
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
        assert!(
            said("dumpe2fs", &["-h", ours.to_str().unwrap()]).contains(" signed_directory_hash")
        );
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
