//! Images that becalm writes, read by the kernel, squashfuse, unsquashfs and becalm.
//!
//! Needs root, for mounts.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use image_format::squash::{Compression, SquashImage, SquashOptions};
use image_format::tree::ImageLayout;
use support::{Mounted, Seen, awkward, large, noise, pack, pack_all, read, run, seen};

/// What each of the readers sees in an image.
fn by_all(image: &Path, directory: &Path) -> Vec<(&'static str, Seen)> {
    let at = directory.join("mounted");
    let kernel = {
        let _mounted = Mounted::by_kernel(image, &at);
        seen(&at)
    };
    let squashfuse = {
        let _mounted = Mounted::by("squashfuse", image, &at);
        seen(&at)
    };
    let unpacked = directory.join("unpacked");
    run("unsquashfs", &["-d".as_ref(), unpacked.as_ref(), image.as_ref()]);
    let unsquashfs = seen(&unpacked);
    fs::remove_dir_all(&unpacked).unwrap();
    vec![
        ("the kernel", kernel),
        ("squashfuse", squashfuse),
        ("unsquashfs", unsquashfs),
        ("becalm", read(&SquashImage::open_path(image).unwrap())),
    ]
}

fn same(what: &str, a: &Seen, b: &Seen) {
    for (path, line) in a {
        assert_eq!(Some(line), b.get(path), "{what}: {}", path.display());
    }
    assert_eq!(a.len(), b.len(), "{what}");
}

#[test]
fn every_reader_finds_what_was_packed() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    awkward(&source);
    let before = seen(&source);
    for compression in Compression::ALL {
        for block_size in [4 << 10, 128 << 10, 1 << 20] {
            pack(
                &source,
                &image,
                &SquashOptions { compression, block_size, ..SquashOptions::default() },
            );
            for (reader, found) in by_all(&image, directory.path()) {
                same(&format!("{} {block_size} {reader}", compression.name()), &before, &found);
            }
        }
    }
}

#[test]
fn directories_with_many_names_are_found_by_their_index() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    large(&source, 20_000);
    large(&source.join("another"), 3000);
    pack(&source, &image, &SquashOptions::default());
    let before = seen(&source);
    for (reader, found) in by_all(&image, directory.path()) {
        same(reader, &before, &found);
    }
}

#[test]
fn the_same_tree_gives_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    awkward(&source);
    large(&source.join("large"), 2000);
    let images = [1, 3, 32, 64].map(|readers| {
        let image = directory.path().join(format!("by {readers}"));
        pack(&source, &image, &SquashOptions { readers, ..SquashOptions::default() });
        fs::read(image).unwrap()
    });
    assert!(images.iter().all(|image| *image == images[0]));
}

#[test]
fn an_empty_file_may_be_the_last_one() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("a"), "a").unwrap();
    fs::write(source.join("z"), "").unwrap();
    // Whether the reader or the placer is first is chance.
    for _ in 0..500 {
        pack(&source, &image, &SquashOptions { readers: 1, ..SquashOptions::default() });
    }
}

#[test]
fn what_was_traced_comes_first() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir_all(source.join("lib")).unwrap();
    for (name, size) in [("a", 200_001), ("b", 200_002), ("c", 200_003), ("d", 200_004)] {
        fs::write(source.join("lib").join(name), noise(size)).unwrap();
    }
    symlink("lib", source.join("lib64")).unwrap();
    symlink(&source, directory.path().join("another name")).unwrap();
    let first = ["source/lib64/d", "source/nothing", "another name/lib/b"];
    let first = first.map(|name| directory.path().join(name));
    let built = pack(&source, &image, &SquashOptions { first: &first, ..SquashOptions::default() });
    assert_eq!(built.traced, 2);
    let image = fs::read(image).unwrap();
    let position = |name: &str| {
        let content = fs::read(source.join("lib").join(name)).unwrap();
        image.windows(64).position(|bytes| bytes == &content[..64]).unwrap()
    };
    let mut by_position = ["a", "b", "c", "d"];
    by_position.sort_by_key(|name| position(name));
    assert_eq!(by_position, ["d", "b", "a", "c"]);
    let front = built.front as usize;
    assert!(position("b") + 200_002 <= front && front <= position("a"), "{front}");
}

#[test]
fn small_files_that_were_not_traced_lie_behind_those_that_were() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    for (name, size) in [("a", 101), ("b", 102), ("c", 103), ("d", 0)] {
        fs::write(source.join(name), noise(size)).unwrap();
    }
    let first = [source.join("b"), source.join("c")];
    let built = pack(&source, &image, &SquashOptions { first: &first, ..SquashOptions::default() });
    let image = fs::read(image).unwrap();
    let position = |name: &str| {
        let content = fs::read(source.join(name)).unwrap();
        image.windows(64).position(|bytes| bytes == &content[..64]).unwrap()
    };
    let front = built.front as usize;
    assert_eq!(["a", "b", "c"].map(|name| position(name) < front), [false, true, true]);
}

#[test]
fn the_same_content_is_stored_once() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(source.join(format!("large {name}")), noise(3_000_000)).unwrap();
        fs::write(source.join(format!("small {name}")), noise(3000)).unwrap();
    }
    // As long as the others, and different only at the end.
    let mut other = noise(3_000_000);
    other[2_999_999] ^= 1;
    fs::write(source.join("other"), other).unwrap();
    let built = pack(&source, &image, &SquashOptions::default());
    assert_eq!((built.duplicates, built.duplicate_bytes), (4, 6_006_000));
    assert!(built.image_bytes < 6_100_000, "{}", built.image_bytes);
    same("becalm", &seen(&source), &read(&SquashImage::open_path(&image).unwrap()));
}

#[test]
fn several_paths_lie_at_their_own_places() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().canonicalize().unwrap();
    fs::create_dir_all(at.join("one/sub")).unwrap();
    fs::create_dir_all(at.join("two/other")).unwrap();
    for name in ["one/sub/file", "two/file", "two/other/not packed"] {
        fs::write(at.join(name), name).unwrap();
    }
    let image = at.join("image");
    let paths = ["one", "one/sub", "two/file"].map(|name| at.join(name));
    let layout = ImageLayout::of(&paths).unwrap();
    assert_eq!(layout.base(), Path::new("/"));
    assert_eq!(layout.paths(), [at.join("one"), at.join("two/file")]);
    pack_all(&paths, &image, &SquashOptions::default()).unwrap();
    let found = read(&SquashImage::open_path(&image).unwrap());
    let below = at.strip_prefix("/").unwrap();
    let below: Vec<_> =
        found.keys().filter_map(|path| Some(path.strip_prefix(below).ok()?.to_owned())).collect();
    let expected = ["", "one", "one/sub", "one/sub/file", "two", "two/file"].map(PathBuf::from);
    assert_eq!(below, expected);
}
