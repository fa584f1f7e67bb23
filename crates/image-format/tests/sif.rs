//! A SIF is what siftool writes, byte for byte, and what others read; and none can make the
//! reader believe what is not so.

#![allow(clippy::unwrap_used)] // A test program; clippy knows only its #[test] functions as such.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use image_format::sif::{
    Arch, Filesystem, NotExtendable, Partition, Role, Sif, SifObjectKind, SifPart, SifReadError,
    SifWriteError, write,
};
use tempfile::TempDir;

const CREATED: i64 = 1_700_000_000;

/// Written by siftool's library (sample/siftool.go).
fn siftools() -> Vec<u8> {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample/siftool.sif.zst");
    zstd::decode_all(File::open(packed).unwrap()).unwrap()
}

fn partition(filesystem: Filesystem, role: Role) -> Partition {
    Partition { filesystem, role, arch: Arch::named("amd64").unwrap() }
}

/// What a tool says on standard output; it must end well.
fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {words:?}: {text}{output:?}");
    text
}

/// A squashfs of a directory with one file.
fn squashfs(directory: &Path, name: &str, file: &str, content: &str) -> File {
    let root = directory.join(name);
    let file = root.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
    let image = directory.join(format!("{name}.sqsh"));
    let words = [root.to_str().unwrap(), image.to_str().unwrap(), "-quiet", "-no-progress"];
    said("mksquashfs", &words);
    File::open(image).unwrap()
}

fn written(directory: &TempDir, parts: &[SifPart<'_>]) -> PathBuf {
    let path = directory.path().join("image.sif");
    write(&File::create(&path).unwrap(), parts, CREATED).unwrap();
    path
}

#[test]
fn what_siftool_writes_is_read() {
    let file = siftools();
    let sif = Sif::read(&file[..]).unwrap();
    assert_eq!(sif.launch, "#!/usr/bin/env run-singularity\n");
    assert_eq!(sif.arch.name(), "amd64");
    assert_eq!(sif.uuid_text(), "3fa085a4-5b1c-8d61-9a77-0d2f3f5f3b11");
    assert_eq!((sif.created, sif.modified), (CREATED, CREATED));
    let kinds: Vec<_> = sif.objects.iter().map(|object| object.kind).collect();
    let expected = [
        SifObjectKind::Deffile,
        SifObjectKind::Environment,
        SifObjectKind::Labels,
        SifObjectKind::Json,
        SifObjectKind::Partition,
        SifObjectKind::Generic,
        SifObjectKind::Partition,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(sif.objects[3].name, "inspect-metadata.json");
    let root = sif.primary().unwrap();
    assert_eq!((root.id, root.offset, root.size), (5, 32_768, 4096));
    assert_eq!(root.partition, Some(partition(Filesystem::Squashfs, Role::PrimarySystem)));
    assert_eq!(root.start(&file[..], 4).unwrap(), b"hsqs");
    assert_eq!(sif.overlays().map(|overlay| overlay.id).collect::<Vec<_>>(), [7]);
    assert!(!sif.is_signed());
}

#[test]
fn the_same_parts_become_the_bytes_that_siftool_writes_but_for_the_random_number() {
    let directory = TempDir::new().unwrap();
    let theirs = siftools();
    let file = directory.path().join("theirs.sif");
    fs::write(&file, &theirs).unwrap();
    let file = File::open(file).unwrap();
    let sif = Sif::read(&file).unwrap();
    let parts: Vec<_> =
        sif.objects.iter().map(|object| SifPart::of_object(object, &file)).collect();
    let mut ours = fs::read(written(&directory, &parts)).unwrap();
    let uuid = 48..64;
    assert_ne!(ours[uuid.clone()], theirs[uuid.clone()]);
    ours[uuid.clone()].copy_from_slice(&theirs[uuid]);
    assert!(ours == theirs);
}

/// Reads the format's fields by itself: all those of the header, then of each row.
const TABLE: &str = r#"
import struct, sys
f = open(sys.argv[1], 'rb').read()
launch, magic, version, arch, uuid, *numbers = struct.unpack_from('<32s10s3s3s16s8q', f)
print(launch.rstrip(b'\0'), magic, version, arch, uuid[6] >> 4, *numbers)
for row in range(numbers[3]):
    kind, used, id, group, link, offset, size, padded, c, m, uid, gid, name, extra = \
        struct.unpack_from('<iBIIIqqqqqqq128s384s', f, numbers[4] + row * 585)
    if used:
        print(hex(kind), id, hex(group), link, size, offset % 4096 == 0, c, m, uid, gid,
              name.rstrip(b'\0').decode(), *struct.unpack_from('<ii3s', extra))
"#;

#[test]
fn another_reader_finds_every_field_where_it_belongs() {
    let directory = TempDir::new().unwrap();
    let root = squashfs(directory.path(), "root", "bin/x", "x");
    let part = partition(Filesystem::Squashfs, Role::PrimarySystem);
    let parts = [
        SifPart::of_bytes(SifObjectKind::Deffile, "", b"Bootstrap: scratch\n"),
        SifPart::of_bytes(SifObjectKind::Json, "labels.json", b"{}"),
        SifPart::of_image(&root, "root", part).unwrap(),
    ];
    let path = written(&directory, &parts);
    let text = said("python3", &["-c", TABLE, path.to_str().unwrap()]);
    let data = 32_768 + root.metadata().unwrap().len() - 32_176;
    let size = root.metadata().unwrap().len();
    let t = CREATED;
    assert_eq!(
        text,
        format!(
            "b'#!/usr/bin/env run-singularity\\n' b'SIF_MAGIC\\x00' b'01\\x00' b'02\\x00' 8 \
             {t} {t} 45 48 4096 28080 32176 {data}\n\
             0x4001 1 0xf0000001 0 19 False {t} {t} 0 0  0 0 b'\\x00\\x00\\x00'\n\
             0x4006 2 0xf0000001 0 2 False {t} {t} 0 0 labels.json 0 0 b'\\x00\\x00\\x00'\n\
             0x4004 3 0xf0000001 0 {size} True {t} {t} 0 0 root 1 2 b'02\\x00'\n"
        )
    );
    assert!(said("file", &["-b", path.to_str().unwrap()]).contains("run-singularity"));
}

#[test]
fn unsquashfs_and_the_kernel_find_the_partitions_where_the_reader_says() {
    let directory = TempDir::new().unwrap();
    let root = squashfs(directory.path(), "root", "bin/x", "the root\n");
    let over = squashfs(directory.path(), "over", "opt/y", "the overlay\n");
    let parts = [
        SifPart::of_bytes(SifObjectKind::Deffile, "", b"Bootstrap: scratch\n"),
        SifPart::of_image(&root, "", partition(Filesystem::Squashfs, Role::PrimarySystem)).unwrap(),
        SifPart::of_image(&over, "", partition(Filesystem::Squashfs, Role::Overlay)).unwrap(),
    ];
    let path = written(&directory, &parts);
    let name = path.to_str().unwrap();
    let file = File::open(&path).unwrap();
    let sif = Sif::read(&file).unwrap();
    let offset = sif.primary().unwrap().offset.to_string();
    assert_eq!(said("unsquashfs", &["-q", "-o", &offset, "-cat", name, "bin/x"]), "the root\n");
    let over = sif.overlays().next().unwrap();
    let script = r#"
        mkdir "$1"; mount -t squashfs -o "ro,loop,offset=$3,sizelimit=$4" "$2" "$1"
        cat "$1"/opt/y; umount "$1""#;
    let place = directory.path().join("mounted");
    let (offset, size) = (over.offset.to_string(), over.size.to_string());
    let words = ["-m", "sh", "-ec", script, "sh", place.to_str().unwrap(), name, &offset, &size];
    assert_eq!(said("unshare", &words), "the overlay\n");
}

#[test]
fn the_same_parts_make_the_same_bytes_wherever_a_file_has_holes() {
    let directory = TempDir::new().unwrap();
    let (sparse, full) = (directory.path().join("sparse"), directory.path().join("full"));
    let file = File::create(&sparse).unwrap();
    file.set_len(40 << 20).unwrap();
    file.write_all_at(b"data", (17 << 20) + 5).unwrap();
    fs::write(&full, fs::read(&sparse).unwrap()).unwrap();
    let images = [sparse, full].map(|path| {
        let directory = TempDir::new().unwrap();
        let file = File::open(path).unwrap();
        let overlay = partition(Filesystem::Ext3, Role::Overlay);
        let path = written(&directory, &[SifPart::of_image(&file, "", overlay).unwrap()]);
        let there = path.metadata().unwrap();
        assert_eq!(there.len(), 32_768 + (40 << 20));
        assert!(there.blocks() * 512 < 1 << 20, "{} bytes", there.blocks() * 512);
        fs::read(path).unwrap()
    });
    assert!(images[0] == images[1]);
    assert_eq!(&images[0][32_768 + (17 << 20) + 5..][..4], b"data");
}

#[test]
fn another_content_another_number() {
    let directory = TempDir::new().unwrap();
    let uuid = |content: &[u8]| {
        let file = File::create(directory.path().join("x")).unwrap();
        write(&file, &[SifPart::of_bytes(SifObjectKind::Generic, "", content)], CREATED)
            .unwrap()
            .uuid
    };
    assert_eq!(uuid(b"one"), uuid(b"one"));
    assert_ne!(uuid(b"one"), uuid(b"two"));
}

#[test]
fn what_cannot_be_a_sif_is_not_written() {
    let directory = TempDir::new().unwrap();
    let file = File::create(directory.path().join("x")).unwrap();
    let refused = |parts: &[SifPart<'_>]| write(&file, parts, CREATED).unwrap_err();
    let part = |name| SifPart::of_bytes(SifObjectKind::Generic, name, b"");
    let many: Vec<_> = (0..49).map(|_| part("")).collect();
    assert!(matches!(refused(&many), SifWriteError::TooMany(49)));
    let long = "x".repeat(129);
    assert!(matches!(refused(&[part(&long)]), SifWriteError::LongName(_)));
    let empty = directory.path().join("empty");
    fs::write(&empty, "").unwrap();
    let empty = File::open(empty).unwrap();
    let root = partition(Filesystem::Squashfs, Role::PrimarySystem);
    let primary = || SifPart::of_image(&empty, "", root).unwrap();
    assert!(matches!(refused(&[primary(), primary()]), SifWriteError::TwoPrimaries));

    let path = directory.path().join("shrinks");
    fs::write(&path, [1; 200]).unwrap();
    let shrinks = File::options().read(true).write(true).open(path).unwrap();
    let parts = [part(""), SifPart::of_image(&shrinks, "", root).unwrap()];
    shrinks.set_len(100).unwrap();
    assert!(matches!(refused(&parts), SifWriteError::Shrunk(2)));
    shrinks.set_len(0).unwrap();
    assert!(matches!(refused(&parts), SifWriteError::Shrunk(2)));
}

#[test]
fn a_full_disk_is_an_error_that_says_so() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let error =
        write(&full, &[SifPart::of_bytes(SifObjectKind::Generic, "", &[1])], CREATED).unwrap_err();
    assert!(error.to_string().contains("part 1: write: No space left on device"), "{error}");
}

#[test]
fn nothing_is_added_to_a_sif_that_would_not_do_what_it_does_now() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("base.sif");
    let row = |number: usize, field: usize| 4096 + number * 585 + field;
    let (group, filesystem, role) = (9, 201, 205);
    let refused = |at: usize, bytes: &[u8], layer: Filesystem| {
        fs::write(&path, changed(at, bytes)).unwrap();
        let file = File::open(&path).unwrap();
        let empty = File::open("/dev/null").unwrap();
        let sif = Sif::read(&file).unwrap();
        let part = SifPart::of_image(&empty, "", partition(layer, Role::Overlay)).unwrap();
        sif.with(&file, vec![part]).err()
    };
    use Filesystem::{Ext3, Squashfs};
    let signature = &0x4005_i32.to_le_bytes();
    assert_eq!(refused(0, b"#", Ext3), None);
    assert_eq!(refused(row(3, 0), signature, Squashfs), Some(NotExtendable::Signed));
    assert_eq!(refused(row(4, filesystem), &[5], Squashfs), Some(NotExtendable::Encrypted));
    assert_eq!(refused(row(4, role), &[1], Squashfs), Some(NotExtendable::NoRoot));
    assert_eq!(refused(row(6, group), &[2], Squashfs), Some(NotExtendable::Groups));
    assert_eq!(refused(row(6, filesystem), &[2], Ext3), Some(NotExtendable::Writable(7)));
    assert_eq!(refused(row(6, filesystem), &[2], Squashfs), None);
}

/// The sample with some bytes changed.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = siftools();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

fn error_of(file: &[u8]) -> SifReadError {
    Sif::read(file).unwrap_err()
}

#[test]
fn no_number_in_the_header_is_believed() {
    assert!(matches!(error_of(b""), SifReadError::NotSif));
    assert!(matches!(error_of(&[0; 127]), SifReadError::NotSif));
    assert!(matches!(error_of(&changed(32, b"X")), SifReadError::NotSif));
    assert!(matches!(error_of(&changed(42, b"02")), SifReadError::Version(_)));
    let (total, offset, size) = (88, 96, 104);
    for number in [-1, 5000, i64::MAX, i64::MIN] {
        let file = changed(total, &number.to_le_bytes());
        assert!(matches!(error_of(&file), SifReadError::Broken(_)), "{number} descriptors");
    }
    for number in [-1, 0, 127, 1 << 40, i64::MAX, i64::MIN] {
        let file = changed(offset, &number.to_le_bytes());
        assert!(matches!(error_of(&file), SifReadError::Broken(_)), "table at {number}");
    }
    for number in [-1, 0, 28_079, i64::MIN] {
        let file = changed(size, &number.to_le_bytes());
        assert!(matches!(error_of(&file), SifReadError::Broken(_)), "table of {number}");
    }
    let file = siftools();
    for length in (0..32_176).step_by(501) {
        assert!(Sif::read(&file[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn no_number_in_a_descriptor_is_believed() {
    let row = |number: usize, field: usize| 4096 + number * 585 + field;
    let (id, offset, size) = (5, 17, 25);
    for number in [-1, 0, 100, 5000, 45_056, i64::MAX, i64::MIN] {
        let file = changed(row(4, offset), &number.to_le_bytes());
        assert!(matches!(error_of(&file), SifReadError::Broken(_)), "object at {number}");
    }
    for number in [-1, 1 << 40, i64::MAX, i64::MIN] {
        let file = changed(row(4, size), &number.to_le_bytes());
        assert!(matches!(error_of(&file), SifReadError::Broken(_)), "object of {number}");
    }
    assert!(
        matches!(error_of(&changed(row(4, id), &[1])), SifReadError::Broken(_)),
        "two number 1"
    );
    // The overlay, 4 and 8 bytes into what its row says besides: a second primary system.
    assert!(matches!(error_of(&changed(row(6, 201 + 4), &[2])), SifReadError::Broken(_)));
}

#[test]
fn a_kind_that_is_not_known_is_listed_all_the_same() {
    let sif = Sif::read(&changed(4096, &0x7fff_i32.to_le_bytes())[..]).unwrap();
    assert_eq!(sif.objects[0].kind, SifObjectKind::Unknown(0x7fff));
    assert_eq!(sif.objects[0].kind.to_string(), "unknown 32767");
}
