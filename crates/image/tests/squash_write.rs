//! Images that becalm writes, read by the kernel, squashfuse, unsquashfs and becalm.
//!
//! Needs root, for mounts.

#![allow(clippy::unwrap_used)]

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use image::squash::{Compression, Image, Options, Progress, build};
use image::{Error, Fingerprint, Reason, Reference};
use support::{Mounted, Seen, awkward, large, noise, pack, read, run, seen};

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
        ("becalm", read(&Image::open_path(image).unwrap())),
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
            pack(&source, &image, &Options { compression, block_size, ..Options::default() });
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
    pack(&source, &image, &Options::default());
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
        pack(&source, &image, &Options { readers, ..Options::default() });
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
        pack(&source, &image, &Options { readers: 1, ..Options::default() });
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
    let built = pack(&source, &image, &Options { first: &first, ..Options::default() });
    assert_eq!(built.traced, 2);
    let image = fs::read(image).unwrap();
    let position = |name: &str| {
        let content = fs::read(source.join("lib").join(name)).unwrap();
        image.windows(64).position(|bytes| bytes == &content[..64]).unwrap()
    };
    let mut by_position = ["a", "b", "c", "d"];
    by_position.sort_by_key(|name| position(name));
    assert_eq!(by_position, ["d", "b", "a", "c"]);
    let front = built.manifest.front as usize;
    assert!(position("b") + 200_002 <= front && front <= position("a"), "{front}");
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
    let built = pack(&source, &image, &Options::default());
    assert_eq!((built.duplicates, built.duplicate_bytes), (4, 6_006_000));
    assert!(built.image_bytes < 6_100_000, "{}", built.image_bytes);
    same("becalm", &seen(&source), &read(&Image::open_path(&image).unwrap()));
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
    let built = build(&paths, &image, &Options::default()).unwrap();
    assert_eq!(built.manifest.layout.base(), Path::new("/"));
    assert_eq!(built.manifest.layout.paths(), [at.join("one"), at.join("two/file")]);
    let found = read(&Image::open_path(&image).unwrap());
    let below = at.strip_prefix("/").unwrap();
    let below: Vec<_> =
        found.keys().filter_map(|path| Some(path.strip_prefix(below).ok()?.to_owned())).collect();
    let expected = ["", "one", "one/sub", "one/sub/file", "two", "two/file"].map(PathBuf::from);
    assert_eq!(below, expected);
}

#[test]
fn an_image_says_what_it_was_made_of() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    awkward(&source);
    let built = pack(&source, &image, &Options::default());
    let manifest = Image::open_path(&image).unwrap().manifest().unwrap().unwrap();
    assert_eq!(manifest, built.manifest);
    let now = || Fingerprint::now(&manifest.layout, 4).unwrap();
    assert_eq!(now(), manifest.fingerprint);
    fs::write(source.join("small"), b"other bytes").unwrap();
    assert_ne!(now(), manifest.fingerprint);
}

/// Without its manifest, an image would be mounted unseen whether it is as its sources are.
#[test]
fn a_damaged_manifest_is_none_of_somebody_elses_image() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), b"bytes").unwrap();
    let built = pack(&source, &image, &Options::default());
    let whole = fs::read(&image).unwrap();
    let start = whole.windows(12).rposition(|bytes| bytes == b"becalm-image").unwrap();
    let manifest = |bytes: &[u8]| {
        fs::write(&image, bytes).unwrap();
        Image::open_path(&image).unwrap().manifest()
    };
    // The last line feed, and what fills the file behind it, say nothing.
    let end = whole.iter().rposition(|byte| *byte == b'\n').unwrap();
    for at in start..end {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(manifest(&changed).is_err(), "byte {at}");
        assert!(at < start + 11 || manifest(&whole[..at]).is_err(), "cut at {at}");
    }
    assert_eq!(manifest(&whole).unwrap().unwrap(), built.manifest);
    assert!(manifest(&whole[..start]).unwrap().is_none());
}

#[test]
fn a_file_that_changes_meanwhile_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    // More than fits into memory at once comes before it, so that it is read late.
    for number in 0..100 {
        fs::write(source.join(format!("a {number}")), noise(1 << 20)).unwrap();
    }
    let growing = source.join("growing");
    fs::write(&growing, b"a").unwrap();
    let grow = |progress| {
        if let Progress::Packing { .. } = progress {
            fs::write(&growing, b"longer").unwrap();
        }
    };
    let options = Options { readers: 1, progress: &grow, ..Options::default() };
    let error = build(&[source], &image, &options).unwrap_err();
    assert!(matches!(&error, Error::Changed(path) if path.ends_with("growing")), "{error}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn sockets_are_refused_unless_they_may_be_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    let error = build(std::slice::from_ref(&source), &image, &Options::default()).unwrap_err();
    assert!(matches!(error, Error::Socket(_)));
    assert!(!image.exists());
    let built = pack(&source, &image, &Options { skip_special: true, ..Options::default() });
    assert_eq!(built.left_out[0].why, Reason::Socket);
}

#[test]
fn an_image_is_never_packed_into_itself() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    awkward(&source);
    for target in [source.join("image"), source.join("deep/er/image"), source.clone()] {
        let error = build(std::slice::from_ref(&source), &target, &Options::default()).unwrap_err();
        assert!(matches!(error, Error::Unfit { .. }), "{error}");
    }
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let (source, disk) = (directory.path().join("source"), directory.path().join("disk"));
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(&disk).unwrap();
    fs::write(source.join("noise"), noise(8 << 20)).unwrap();
    let mut mount = ["-t", "tmpfs", "-o", "size=4m", "none"].map(OsStr::new).to_vec();
    mount.push(disk.as_os_str());
    run("mount", &mount);
    let error = build(&[source], &disk.join("image"), &Options::default()).unwrap_err();
    let left = fs::read_dir(&disk).unwrap().count();
    run("umount", &[disk.as_ref()]);
    let Error::At { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(left, 0);
}

#[test]
fn what_an_environment_takes_from_elsewhere_is_listed() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().canonicalize().unwrap();
    let (source, image) = (at.join("env"), at.join("image"));
    let site = source.join("lib/site-packages");
    fs::create_dir_all(site.join("tool.dist-info")).unwrap();
    fs::create_dir_all(source.join("bin")).unwrap();
    fs::write(source.join("pyvenv.cfg"), "home = /opt/python/bin\nversion = 3\n").unwrap();
    fs::write(site.join("paths.pth"), "# more\nimport site\n/src/a\n../inside\n\n").unwrap();
    let url = r#"{"dir_info": {"editable": true}, "url": "file:///src/my%20tool"}"#;
    fs::write(site.join("tool.dist-info/direct_url.json"), url).unwrap();
    let finder = "MAPPING = {'tool': '/src/finder/tool'}\n";
    fs::write(site.join("__editable___tool_finder.py"), finder).unwrap();
    symlink("../../../outside", source.join("lib/link")).unwrap();
    symlink("site-packages", source.join("lib/inside")).unwrap();
    fs::copy("/bin/true", source.join("bin/program")).unwrap();
    let built = pack(&source, &image, &Options::default());
    let outside: Vec<_> =
        built.outside.iter().map(|one| (one.by, one.what.to_str().unwrap())).collect();
    let link = at.parent().unwrap().join("outside");
    assert_eq!(
        outside,
        [
            (Reference::Symlink, link.to_str().unwrap()),
            (Reference::Pth, "/src/a"),
            (Reference::Editable, "/src/finder/tool"),
            (Reference::Editable, "/src/my tool"),
            (Reference::Home, "/opt/python/bin"),
            (Reference::Interpreter, "/lib64/ld-linux-x86-64.so.2"),
            (Reference::Library, "libc.so.6"),
        ]
    );
}
