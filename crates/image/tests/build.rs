//! Images of some paths: what they say of themselves, and what is left where none can be made.
//!
//! Needs root, for mounts.

#![allow(clippy::unwrap_used)]

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;

use image::squash::{ImageOptions, ImageProgress};
use image::{ImageError, Manifest, Reference};
use image_format::SquashWriteError;
use image_format::squash::SquashImage;
use image_format::tree::{Fingerprint, OmitReason};
use support::{awkward, build, noise, pack, read, run, seen};

#[test]
fn an_image_says_what_it_was_made_of() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    awkward(&source);
    let built = pack(&source, &image, &ImageOptions::default());
    let manifest = Manifest::of(&SquashImage::open_path(&image).unwrap()).unwrap().unwrap();
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
    let built = pack(&source, &image, &ImageOptions::default());
    let whole = fs::read(&image).unwrap();
    let start = whole.windows(12).rposition(|bytes| bytes == b"becalm-image").unwrap();
    let manifest = |bytes: &[u8]| {
        fs::write(&image, bytes).unwrap();
        Manifest::of(&SquashImage::open_path(&image).unwrap())
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
        if let ImageProgress::Packing { .. } = progress {
            fs::write(&growing, b"longer").unwrap();
        }
    };
    let options = ImageOptions { readers: 1, progress: &grow, ..ImageOptions::default() };
    let error = build(&[source], &image, &options).unwrap_err();
    assert!(
        matches!(&error, ImageError::Squash(SquashWriteError::Changed(path)) if path.ends_with("growing")),
        "{error}"
    );
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn sockets_are_refused_unless_they_may_be_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    fs::create_dir(&source).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    let error = build(std::slice::from_ref(&source), &image, &ImageOptions::default()).unwrap_err();
    assert!(matches!(error, ImageError::Squash(SquashWriteError::Socket(_))));
    assert!(!image.exists());
    let built =
        pack(&source, &image, &ImageOptions { skip_special: true, ..ImageOptions::default() });
    assert_eq!(built.left_out[0].why, OmitReason::Socket);
}

#[test]
fn an_image_is_never_packed_into_itself() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    awkward(&source);
    for target in [source.join("image"), source.join("deep/er/image"), source.clone()] {
        let error =
            build(std::slice::from_ref(&source), &target, &ImageOptions::default()).unwrap_err();
        assert!(matches!(error, ImageError::Unfit { .. }), "{error}");
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
    let error = build(&[source], &disk.join("image"), &ImageOptions::default()).unwrap_err();
    let left = fs::read_dir(&disk).unwrap().count();
    run("umount", &[disk.as_ref()]);
    let ImageError::Squash(SquashWriteError::At { source, .. }) = &error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(left, 0);
}

const LOADER: &str = match cfg!(target_arch = "aarch64") {
    true => "/lib/ld-linux-aarch64.so.1",
    false => "/lib64/ld-linux-x86-64.so.2",
};

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
    let built = pack(&source, &image, &ImageOptions::default());
    // Arm's programs need their loader as a library, too.
    let loader = (Reference::Library, LOADER.rsplit('/').next().unwrap());
    let outside = built.outside.iter().map(|one| (one.by, one.what.to_str().unwrap()));
    let outside: Vec<_> = outside.filter(|one| *one != loader).collect();
    let link = at.parent().unwrap().join("outside");
    assert_eq!(
        outside,
        [
            (Reference::Symlink, link.to_str().unwrap()),
            (Reference::Pth, "/src/a"),
            (Reference::Editable, "/src/finder/tool"),
            (Reference::Editable, "/src/my tool"),
            (Reference::Home, "/opt/python/bin"),
            (Reference::Interpreter, LOADER),
            (Reference::Library, "libc.so.6"),
        ]
    );
}

#[test]
fn an_image_in_a_part_of_a_file_says_what_it_was_made_of() {
    let directory = tempfile::tempdir().unwrap();
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    awkward(&source);
    let built = pack(&source, &image, &ImageOptions::default());
    let mut bytes = vec![0xaa; 12_345];
    bytes.extend(fs::read(&image).unwrap());
    bytes.extend([0xbb; 100]);
    fs::write(&image, bytes).unwrap();
    let file = fs::File::open(&image).unwrap();
    let part = SquashImage::open_part(file, 12_345, built.image_bytes).unwrap();
    assert_eq!(read(&part), seen(&source));
    assert_eq!(Manifest::of(&part).unwrap().unwrap(), built.manifest);
}
