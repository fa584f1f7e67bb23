//! The facts of real files are those that readelf(1) prints.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use loader::{ElfError, facts};
use recording::MappedElf;
use testkit::arch::LIB;

/// What `readelf -dl` says, read from its text.
fn readelf(path: &Path) -> MappedElf {
    let output = Command::new("readelf")
        .args(["--wide", "--dynamic", "--program-headers"])
        .arg(path)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let mut image = MappedElf::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((before, rest)) = line.split_once('[') else { continue };
        let Some(text) = rest.strip_suffix(']') else { continue };
        let list = || text.split(':').map(str::to_owned).collect();
        if before.contains("(NEEDED)") {
            image.needed.push(text.to_owned());
        } else if before.contains("(SONAME)") {
            image.soname = Some(text.to_owned());
        } else if before.contains("(RPATH)") {
            image.rpath = list();
        } else if before.contains("(RUNPATH)") {
            image.runpath = list();
        } else if rest.starts_with("Requesting program interpreter: ") {
            image.interpreter = text.split_once(": ").map(|(_, path)| path.to_owned());
        }
    }
    image
}

fn elf_files(directories: &[&str], most: usize) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    for directory in directories {
        let mut entries: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        let step = (entries.len() / most).max(1);
        for path in entries.into_iter().step_by(step) {
            let Ok(real) = fs::metadata(&path) else { continue };
            let fresh = real.is_file() && seen.insert((real.dev(), real.ino()));
            if fresh && fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")) {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn every_sampled_file_of_the_distribution_says_what_readelf_prints() {
    let files = elf_files(&["/usr/bin", &format!("/usr{LIB}"), "/usr/sbin"], 150);
    assert!(files.len() > 100, "only {} ELF files to compare", files.len());
    for file in &files {
        assert_eq!(facts(file).unwrap(), readelf(file), "{}", file.display());
    }
}

#[test]
fn rpath_and_runpath_are_told_apart_whatever_their_length() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("a.c");
    fs::write(&source, "int a(void) { return 1; }\n").unwrap();
    let entries: Vec<_> =
        (0..400).map(|number| format!("/store/{number:032x}-package-{number}-1.2.3/lib")).collect();
    for (tags, name) in [("--disable-new-dtags", "rpath.so"), ("--enable-new-dtags", "runpath.so")]
    {
        let library = directory.path().join(name);
        let done = Command::new("gcc")
            .args(["-shared", "-nostdlib", &format!("-Wl,{tags},-rpath,{}", entries.join(":"))])
            .args([Path::new("-o"), &library, &source])
            .status()
            .unwrap();
        assert!(done.success());
        let image = facts(&library).unwrap();
        let (list, other) = match name {
            "rpath.so" => (&image.rpath, &image.runpath),
            _ => (&image.runpath, &image.rpath),
        };
        assert_eq!((list, other.len()), (&entries, 0));
        assert_eq!(image, readelf(&library));
    }
}

#[test]
fn what_is_no_elf_file_says_so_and_a_pipe_does_not_block() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    assert!(matches!(facts(&script), Err(ElfError::NotElf)));
    fs::write(&script, "").unwrap();
    assert!(matches!(facts(&script), Err(ElfError::NotElf)));
    assert!(matches!(facts(directory.path()), Err(ElfError::NotAFile)));
    assert!(matches!(facts(Path::new("/dev/null")), Err(ElfError::NotAFile)));
    assert!(matches!(facts(&directory.path().join("absent")), Err(ElfError::Io(_))));
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(matches!(facts(&pipe), Err(ElfError::NotAFile)));
}
