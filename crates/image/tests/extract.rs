//! What is packed is unpacked again; and nothing in an image makes that write elsewhere.
//!
//! Needs root, for mounts and owners.

#![allow(clippy::unwrap_used)] // A test program; clippy knows only its #[test] functions as such.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use image::extract::{ExtractError, ExtractRequest, Extracted, extract};
use image::squash::ImageOptions;
use image_format::squash::Compression;
use support::{awkward, noise, pack, run, seen};

fn unpack(image: &Path, directory: &Path, paths: &[&str]) -> Result<Extracted, ExtractError> {
    let paths: Vec<_> = paths.iter().map(PathBuf::from).collect();
    extract(
        image,
        directory,
        &ExtractRequest { paths: &paths, object: None, writers: 4, progress: &|_, _| {} },
    )
}

/// By mksquashfs, with tables that are not compressed: they can be patched.
fn mksquashfs(directory: &Path, image: &Path) {
    let mut words: Vec<&OsStr> = vec![directory.as_ref(), image.as_ref()];
    words.extend(["-quiet", "-no-progress", "-noI", "-noappend"].map(OsStr::new));
    run("mksquashfs", &words);
}

fn replace_all(image: &Path, from: &[u8], to: &[u8]) {
    let mut bytes = fs::read(image).unwrap();
    let at: Vec<_> =
        (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!at.is_empty());
    for at in at {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    fs::write(image, bytes).unwrap();
}

#[test]
fn what_was_packed_is_unpacked_with_all_that_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    awkward(&source);
    fs::create_dir(source.join("nobody enters")).unwrap();
    fs::write(source.join("nobody enters/file"), "secret").unwrap();
    fs::set_permissions(source.join("nobody enters"), PermissionsExt::from_mode(0o000)).unwrap();
    std::os::unix::fs::lchown(source.join("text"), Some(1234), Some(5678)).unwrap();
    let before = seen(&source);
    for compression in Compression::ALL {
        pack(&source, &image, &ImageOptions { compression, ..ImageOptions::default() });
        let unpacked = directory.path().join(compression.name());
        let said = unpack(&image, &unpacked, &[]).unwrap();
        assert!(said.owners && said.left_out.is_empty() && said.lost_xattrs == 0, "{said:?}");
        assert_eq!(before, seen(&unpacked));
    }
    let unpacked = directory.path().join("by mksquashfs");
    mksquashfs(&source, &directory.path().join("theirs"));
    unpack(&directory.path().join("theirs"), &unpacked, &[]).unwrap();
    assert_eq!(before, seen(&unpacked));
}

#[test]
fn holes_stay_holes() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    fs::File::create(source.join("hole")).unwrap().set_len(100 << 20).unwrap();
    pack(&source, &image, &ImageOptions::default());
    unpack(&image, &directory.path().join("out"), &[]).unwrap();
    let there = directory.path().join("out/hole").metadata().unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!((there.len(), there.blocks()), (100 << 20, 0));
}

#[test]
fn some_paths_come_with_the_directories_above_them() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    awkward(&source);
    pack(&source, &image, &ImageOptions::default());
    let out = directory.path().join("out");
    unpack(&image, &out, &["/deep/er/and", "deep/er/and/deeper", "link", "small"]).unwrap();
    let (all, some) = (seen(&source), seen(&out));
    let paths: Vec<_> = some.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(
        paths,
        ["", "deep", "deep/er", "deep/er/and", "deep/er/and/deeper", "link", "small"]
    );
    for (path, line) in some.iter().filter(|(path, _)| !path.ends_with("small")) {
        assert_eq!(line, &all[path]);
    }
    for wrong in ["nothing", "small/below a file", "../small"] {
        let other = directory.path().join("other");
        assert!(matches!(unpack(&image, &other, &[wrong]), Err(ExtractError::Unfit { .. })));
        assert!(!other.exists());
    }
}

#[test]
fn an_image_that_would_write_elsewhere_is_refused_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("outside")).unwrap();
    fs::create_dir_all(at("source/evil1")).unwrap();
    symlink(at("outside"), at("source/evil0")).unwrap();
    fs::write(at("source/evil1/file"), "written through the link").unwrap();
    // A link and a directory of the same name; a name that leads up; one with a slash in it.
    for (from, to) in [("evil0", "evil1"), ("evil1", "../ou"), ("file", "a/bc")] {
        mksquashfs(&at("source"), &at("image"));
        replace_all(&at("image"), from.as_bytes(), to.as_bytes());
        let error = unpack(&at("image"), &at("out"), &[]).unwrap_err();
        println!("{error}");
        let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 3, "outside, source and image: {left:?}");
        assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 0);
    }
}

#[test]
fn a_directory_in_itself_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir_all(source.join("itself")).unwrap();
    mksquashfs(&source, &image);
    // Of the entry, the offset of its inode becomes that of the root's.
    let mut bytes = fs::read(&image).unwrap();
    let name = bytes.windows(6).position(|bytes| bytes == b"itself").unwrap();
    let (root, entry) = (32..34, name - 8..name - 6);
    bytes.copy_within(root, entry.start);
    fs::write(&image, bytes).unwrap();
    let error = unpack(&image, &directory.path().join("out"), &[]).unwrap_err();
    assert!(error.to_string().contains("two names"), "{error}");
}

#[test]
fn a_damaged_image_is_refused_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "all work and no play ".repeat(50_000)).unwrap();
    pack(&source, &image, &ImageOptions::default());
    let whole = fs::read(&image).unwrap();
    for at in (96..whole.len()).step_by(97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        fs::write(&image, damaged).unwrap();
        let out = directory.path().join("out");
        if unpack(&image, &out, &[]).is_ok() {
            fs::remove_dir_all(&out).unwrap();
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "byte {at}");
    }
}

#[test]
fn what_does_not_fit_is_said_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    let disk = directory.path().join("disk");
    for directory in [&source, &disk] {
        fs::create_dir(directory).unwrap();
    }
    fs::write(source.join("noise"), noise(8 << 20)).unwrap();
    for number in 0..100 {
        fs::write(source.join(format!("file {number}")), "").unwrap();
    }
    pack(&source, &image, &ImageOptions::default());
    for limit in ["size=4m", "size=64m,nr_inodes=50"] {
        let words = ["-t", "tmpfs", "-o", limit, "none"].map(OsStr::new);
        run("mount", &[&words[..], &[disk.as_ref()]].concat());
        let error = unpack(&image, &disk.join("out"), &[]).unwrap_err();
        let left = fs::read_dir(&disk).unwrap().count();
        run("umount", &[disk.as_ref()]);
        assert!(matches!(error, ExtractError::NoRoom { .. }), "{error}");
        assert_eq!(left, 0);
    }
}

#[test]
fn only_an_empty_directory_is_filled() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    let out = directory.path().join("out");
    fs::create_dir_all(source.join("sub")).unwrap();
    fs::create_dir(&out).unwrap();
    pack(&source, &image, &ImageOptions::default());
    unpack(&image, &out, &[]).unwrap();
    assert_eq!(seen(&source), seen(&out));
    assert!(matches!(unpack(&image, &out, &[]), Err(ExtractError::Unfit { .. })));
}
