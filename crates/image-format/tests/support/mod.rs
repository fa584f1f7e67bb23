//! What the tests of images share: trees to pack, what a tree looks like, real tools.

#![allow(dead_code, clippy::unwrap_used)] // Each test program uses a part of it.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use image_format::squash::{
    self, ListingPosition, NodeKind, SquashImage, SquashNode, SquashOptions, SquashSummary,
    XattrPair,
};
use image_format::tree::{FileTree, ImageLayout, ScanOptions};
use image_format::{ImageWriter, SquashWriteError};

/// All that a tree is, by path: what `diff -r` would see, and what it would not.
pub type Seen = BTreeMap<PathBuf, String>;

/// Runs a tool, and fails with what it said if it fails.
pub fn run(program: &str, args: &[&OsStr]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {text}{said}");
    text
}

/// Packs a directory.
pub fn pack(directory: &Path, image: &Path, options: &SquashOptions<'_>) -> SquashSummary {
    pack_all(&[directory.to_owned()], image, options).unwrap()
}

/// Packs several paths.
pub fn pack_all(
    paths: &[PathBuf],
    image: &Path,
    options: &SquashOptions<'_>,
) -> Result<SquashSummary, SquashWriteError> {
    let wanted = ScanOptions { readers: 4, ..ScanOptions::default() };
    let tree = FileTree::scan(ImageLayout::of(paths)?, wanted)?;
    let file = File::create(image).unwrap();
    let mut writer = ImageWriter::new(&file, image, 0);
    let summary = squash::write(&tree, &mut writer, options)?;
    writer.finish()?;
    Ok(summary)
}

/// A directory with all that an image can hold.
pub fn awkward(directory: &Path) {
    let at = |name: &str| directory.join(name);
    fs::create_dir_all(at("empty directory")).unwrap();
    fs::create_dir_all(at("deep/er/and/deeper")).unwrap();
    fs::write(at("empty"), b"").unwrap();
    fs::write(at("small"), b"a few bytes").unwrap();
    fs::write(at("name with spaces"), b"spaces").unwrap();
    fs::write(at("grüße-日本語"), b"UTF-8").unwrap();
    fs::write(directory.join(OsStr::from_bytes(b"not \xff UTF-8\n")), b"bytes").unwrap();
    fs::write(at(&"n".repeat(255)), b"the longest name").unwrap();
    for size in [4095usize, 4096, 4097, 131_071, 131_072, 131_073, 1 << 20, (3 << 20) + 17] {
        fs::write(at(&format!("size {size}")), noise(size)).unwrap();
    }
    fs::write(at("text"), "all work and no play ".repeat(50_000)).unwrap();
    fs::write(at("zeros"), vec![0; 300_000]).unwrap();
    sparse(&at("sparse"));
    symlink("small", at("link")).unwrap();
    symlink("/nowhere/at all", at("dangling")).unwrap();
    fs::hard_link(at("small"), at("second name")).unwrap();
    fs::hard_link(at("small"), at("deep/er/third name")).unwrap();
    fs::write(at("twin a"), noise(200_000)).unwrap();
    fs::write(at("twin b"), noise(200_000)).unwrap();
    fs::write(at("deep/small twin a"), noise(1000)).unwrap();
    fs::write(at("deep/small twin b"), noise(1000)).unwrap();
    fs::write(at("set-user-ID"), b"x").unwrap();
    fs::set_permissions(at("set-user-ID"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(at("deep/er"), fs::Permissions::from_mode(0o1777)).unwrap();
    run("mkfifo", &["-m".as_ref(), "640".as_ref(), at("pipe").as_ref()]);
    for (file, name, value) in [
        ("small", "user.colour", &b"blue"[..]),
        ("text", "user.colour", b"blue"),
        ("text", "user.empty", b""),
        ("deep", "user.long", &[b'x'; 3000]),
    ] {
        rustix::fs::setxattr(at(file), name, value, rustix::fs::XattrFlags::empty()).unwrap();
    }
    for file in ["text", "deep/er", "link"] {
        run("touch", &["-h".as_ref(), "-d".as_ref(), "2001-04-19".as_ref(), at(file).as_ref()]);
    }
}

/// A directory with so many names that its listing needs an index.
pub fn large(directory: &Path, names: usize) {
    fs::create_dir_all(directory).unwrap();
    for number in 0..names {
        fs::write(directory.join(format!("a file with number {number:06}")), b"").unwrap();
    }
}

fn sparse(path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(40 << 20).unwrap();
    file.write_all_at(b"island", 17 << 20).unwrap();
    file.write_all_at(b"end", (40 << 20) - 3).unwrap();
}

/// Bytes that no compressor makes smaller, the same each time.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = length as u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// What a directory on a filesystem is.
pub fn seen(directory: &Path) -> Seen {
    let mut all = Seen::new();
    let mut left = vec![PathBuf::new()];
    while let Some(path) = left.pop() {
        let full = directory.join(&path);
        let about = full.symlink_metadata().unwrap();
        let kind = about.file_type();
        let what = if kind.is_dir() {
            let names = fs::read_dir(&full).unwrap().map(|entry| entry.unwrap().file_name());
            left.extend(names.map(|name| path.join(name)));
            "directory".to_owned()
        } else if kind.is_symlink() {
            format!("link to {:?}", fs::read_link(&full).unwrap())
        } else if kind.is_file() {
            format!("{} bytes {:x}", about.len(), checksum(&full))
        } else {
            format!("special {:o} {:x}", about.mode() & 0o170_000, about.rdev())
        };
        let owner = (about.uid(), about.gid());
        let (mode, names) = (about.mode() & 0o7777, about.nlink());
        let line = line(&what, mode, owner, about.mtime(), names, &xattrs(&full));
        all.insert(path, line);
    }
    all
}

fn line(
    what: &str,
    mode: u32,
    owner: (u32, u32),
    mtime: i64,
    names: u64,
    xattrs: &[XattrPair],
) -> String {
    // Filesystems count the names of directories in different ways.
    let names = if what == "directory" { 0 } else { names };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let xattrs: Vec<_> = xattrs.iter().map(|(name, value)| (text(name), text(value))).collect();
    format!("{what}, mode {mode:o}, owner {owner:?}, mtime {mtime}, names {names}, {xattrs:?}")
}

fn checksum(path: &Path) -> u32 {
    struct Sink(crc32fast::Hasher);
    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut sink = Sink(crc32fast::Hasher::new());
    std::io::copy(&mut File::open(path).unwrap(), &mut sink).unwrap();
    sink.0.finalize()
}

fn xattrs(path: &Path) -> Vec<XattrPair> {
    let mut names = vec![0; 65536];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0);
    let mut all: Vec<_> = names
        .filter(|name| name.starts_with(b"user."))
        .map(|name| {
            let mut value = vec![0; 65536];
            let name = CString::new(name).unwrap();
            // squashfuse says of an empty value that there is none.
            let length = match rustix::fs::lgetxattr(path, &name, &mut value[..]) {
                Err(rustix::io::Errno::NODATA) => 0,
                length => length.unwrap(),
            };
            value.truncate(length);
            (name.into_bytes(), value)
        })
        .collect();
    all.sort();
    all
}

/// What an image is, by becalm's reader. Every way in is used and held against the others.
pub fn read(image: &SquashImage) -> Seen {
    let mut all = Seen::new();
    let mut left = vec![(PathBuf::new(), image.root())];
    while let Some((path, node)) = left.pop() {
        let about = image.attributes(node).unwrap();
        assert_eq!(SquashNode::from_number(node.number(image), image), node);
        let what = match about.kind {
            NodeKind::Directory => {
                for (name, child) in list(image, node) {
                    assert_eq!(image.lookup(node, &name).unwrap(), Some(child));
                    left.push((path.join(OsStr::from_bytes(&name)), child));
                }
                assert_eq!(image.lookup(node, b"no such name").unwrap(), None);
                "directory".to_owned()
            }
            NodeKind::Symlink => {
                let target = image.target(node).unwrap();
                format!("link to {:?}", Path::new(OsStr::from_bytes(&target)))
            }
            NodeKind::File => format!("{} bytes {:x}", about.size, content(image, node)),
            NodeKind::Fifo => format!("special 10000 {:x}", about.device),
            NodeKind::CharDevice => format!("special 20000 {:x}", about.device),
            NodeKind::BlockDevice => format!("special 60000 {:x}", about.device),
            NodeKind::Socket => format!("special 140000 {:x}", about.device),
        };
        let mut xattrs = image.xattrs(node).unwrap();
        xattrs.retain(|(name, _)| name.starts_with(b"user."));
        xattrs.sort();
        let owner = (about.uid, about.gid);
        let (mode, mtime) = (u32::from(about.mode), i64::from(about.mtime));
        all.insert(path, line(&what, mode, owner, mtime, u64::from(about.names), &xattrs));
    }
    all
}

/// A listing, in steps of a few names, as a FUSE server is asked for it.
fn list(image: &SquashImage, directory: SquashNode) -> Vec<(Vec<u8>, SquashNode)> {
    let mut all = Vec::new();
    let mut mark = ListingPosition::default();
    let step = if image.attributes(directory).unwrap().size > 100_000 { 1000 } else { 3 };
    loop {
        let (before, from) = (all.len(), mark);
        let mut each = |entry: squash::SquashEntry| {
            mark = entry.after;
            all.push((entry.name, entry.node));
            match all.len() - before < step {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        image.list(directory, from, &mut each).unwrap();
        if all.len() == before {
            return all;
        }
    }
}

/// The checksum of a file's content, read in odd steps.
fn content(image: &SquashImage, node: SquashNode) -> u32 {
    let file = image.open(node).unwrap();
    let mut hash = crc32fast::Hasher::new();
    let mut at = 0;
    let mut buffer = vec![0; 100_003];
    loop {
        let length = image.read_at(&file, at, &mut buffer).unwrap();
        if length == 0 {
            assert_eq!(at, file.size());
            return hash.finalize();
        }
        hash.update(&buffer[..length]);
        at += length as u64;
    }
}

/// A mounted image, until it is dropped.
pub struct Mounted(PathBuf);

impl Mounted {
    pub fn by_kernel(image: &Path, at: &Path) -> Mounted {
        fs::create_dir_all(at).unwrap();
        run("mount", &["-o".as_ref(), "loop,ro".as_ref(), image.as_ref(), at.as_ref()]);
        Mounted(at.to_owned())
    }

    pub fn by(server: &str, image: &Path, at: &Path) -> Mounted {
        fs::create_dir_all(at).unwrap();
        run(server, &[image.as_ref(), at.as_ref()]);
        Mounted(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
