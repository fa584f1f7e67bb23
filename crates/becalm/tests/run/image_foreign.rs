//! Images that others made: squashfs of every compressor that mksquashfs has.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::imaged::{As, Imaged, ways};
use testkit::run;

/// The compressors, and the options of mksquashfs's that change what is written.
const COMPRESSORS: [&[&str]; 8] = [
    &["gzip"],
    &["lzma"],
    &["lzo"],
    &["lzo", "-Xalgorithm", "lzo1x_1_15"],
    &["xz", "-b", "1M"],
    &["xz", "-Xbcj", "x86,arm"],
    &["lz4", "-Xhc"],
    &["zstd"],
];

/// A directory with text, a program, and what cannot be made smaller.
fn imaged() -> Imaged {
    Imaged::of("env", |directory| {
        fs::create_dir(directory.join("sub")).unwrap();
        fs::write(directory.join("sub/text"), "a line of text\n".repeat(50_000)).unwrap();
        fs::copy("/usr/bin/bash", directory.join("program")).unwrap();
        let noise: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        fs::write(directory.join("sub/noise"), noise).unwrap();
    })
}

/// mksquashfs's image of the directory, in place of becalm's.
fn pack(imaged: &Imaged, options: &[&str]) {
    let mut pack = Command::new("mksquashfs");
    pack.args([&imaged.directory, &imaged.image]).args(["-noappend", "-quiet", "-no-progress"]);
    let ran = run(pack.arg("-comp").args(options));
    assert_eq!(ran.code(), 0, "{}", ran.err());
}

const SUMS: &str = "find . -type f | sort | xargs sha256sum";

#[test]
fn images_of_every_compressor_are_entered_and_say_who_mounts_them() {
    let imaged = imaged();
    for options in COMPRESSORS {
        pack(&imaged, options);
        let theirs = imaged.scene.at("theirs");
        let mut unpack = Command::new("unsquashfs");
        let ran = run(unpack.args(["-f", "-q", "-n", "-d", &theirs, &imaged.image]));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let expected = run(Command::new("sh").args(["-c", SUMS]).current_dir(&theirs)).out();
        // It says nothing of where it belongs.
        for who in ways() {
            let at = ["--at", imaged.directory.as_str(), "--json"];
            // Where the kernel does not have a compressor, becalm reads it, unless told otherwise.
            let script = format!("cd \"$0\" && {SUMS}");
            let mut command = match who {
                As::Root => {
                    let mut command = Command::new(crate::BECALM);
                    command.args(["run", "--image", &imaged.image]).args(at);
                    command.args(["--", "sh", "-c", &script, &imaged.directory]);
                    command
                }
                _ => imaged.sh(who, &at, &script),
            };
            let ran = run(&mut command);
            assert_eq!(ran.code(), 0, "{options:?} {who:?} {}", ran.err());
            assert_eq!(ran.out(), expected, "{options:?} {who:?}");
            let by = match who {
                As::Root if kernel_reads(options[0]) => "kernel",
                _ => "fuse",
            };
            assert!(ran.err().contains(&format!("\"by\": \"{by}\"")), "{options:?} {}", ran.err());
        }
    }
}

/// What this kernel was built with, as far as it says so.
fn kernel_reads(compressor: &str) -> bool {
    let mut search = Command::new("zgrep");
    let option = match compressor {
        "gzip" => "CONFIG_SQUASHFS_ZLIB=y".to_owned(),
        other => format!("CONFIG_SQUASHFS_{}=y", other.to_uppercase()),
    };
    if !Path::new("/proc/config.gz").exists() {
        // Then by trying it: lzma it never has.
        return compressor != "lzma";
    }
    run(search.args(["-q", &option, "/proc/config.gz"])).code() == 0
}

#[test]
fn a_cut_or_changed_image_of_any_compressor_is_refused_in_one_line() {
    let imaged = imaged();
    for options in COMPRESSORS {
        pack(&imaged, options);
        let good = fs::read(&imaged.image).unwrap();
        let at = ["--at", imaged.directory.as_str()];
        // Its tables are at its end: cut off, and nothing but zeros.
        let half = good.len() / 2;
        let zeroed = [&good[..half], &vec![0; good.len() - half]].concat();
        for bad in [&good[..half], &good[..100], &zeroed] {
            fs::write(&imaged.image, bad).unwrap();
            for who in ways() {
                let said = imaged.refused(who, &at);
                assert!(said.contains(&imaged.image), "{said}");
            }
        }
        // Content that is no block any more: the program is told, and nothing else happens.
        let mut changed = good.clone();
        changed[200..half].fill(0x55);
        fs::write(&imaged.image, &changed).unwrap();
        let ran = run(&mut imaged.sh(As::User, &at, "cat \"$0\"/program >/dev/null; echo $?"));
        assert_eq!((ran.code(), ran.out().trim()), (0, "1"), "{options:?} {}", ran.err());
        assert!(ran.err().contains("Input/output error"), "{}", ran.err());
    }
}

/// An overlay as Apptainer leaves one: what was written in `upper`, what was deleted marked there.
fn overlay(imaged: &Imaged) -> String {
    let (source, overlay) = (imaged.scene.subdirectory("over"), imaged.scene.at("overlay.img"));
    fs::create_dir_all(format!("{source}/upper/sub")).unwrap();
    fs::create_dir_all(format!("{source}/work")).unwrap();
    fs::write(format!("{source}/upper/sub/.wh.noise"), "").unwrap();
    fs::write(format!("{source}/upper/new"), "in the overlay\n").unwrap();
    fs::File::create(&overlay).unwrap().set_len(64 << 20).unwrap();
    let ran = run(Command::new("mke2fs").args(["-q", "-F", "-t", "ext3", "-d", &source, &overlay]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    // Whose it is may not matter where it cannot be given away.
    let _ = std::os::unix::fs::chown(&overlay, Some(65534), Some(65534));
    overlay
}

const LOOK: &str = "cd \"$0\"; ls sub; cat new; (echo x > new) 2>/dev/null || echo read-only";

#[test]
fn an_ordinary_user_sees_what_is_in_an_ext3_overlay_and_cannot_write_to_it() {
    let imaged = imaged();
    let overlay = overlay(&imaged);
    let seen = format!("{overlay}:ro");
    let said = imaged.said(As::User, &["--overlay", &seen], LOOK);
    assert_eq!(said, "text\nin the overlay\nread-only\n");
    // Root's kernel does not know the mark that fuse-overlayfs makes.
    let why = imaged.refused(As::User, &["--overlay", &overlay]);
    assert!(why.contains("look only, with :ro"), "{why}");
    // Not unmounted: its last changes may be in its journal alone.
    let mut bytes = fs::read(&overlay).unwrap();
    bytes[1024 + 96] |= 4;
    fs::write(&overlay, bytes).unwrap();
    let why = imaged.refused(As::User, &["--overlay", &seen]);
    assert!(why.contains("e2fsck -p") && why.contains(&overlay), "{why}");
}
