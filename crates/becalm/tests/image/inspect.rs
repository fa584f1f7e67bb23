//! `becalm image inspect` says what is in an image, whatever somebody wrote into it.

use std::fs::{self, File};
use std::process::Command;

use crate::BECALM;
use image_format::sif::{
    Arch, Container, Filesystem, INSPECT_METADATA, Partition, Role, SifObjectKind, SifPart, write,
};
use serde_json::Value;
use testkit::{Ran, Scene, run};

fn inspect(words: &[&str]) -> Ran {
    let words = [&["image", "inspect"], words].concat();
    run(Command::new(BECALM).args(words).env("COLUMNS", "80"))
}

#[track_caller]
fn json(file: &str) -> Value {
    let ran = inspect(&["--json", file]);
    assert_eq!(ran.err(), "");
    serde_json::from_str(&ran.out()).unwrap()
}

/// A squashfs of one file, by mksquashfs.
fn squashfs(scene: &Scene) -> String {
    let directory = scene.subdirectory("root");
    fs::write(format!("{directory}/file"), "content").unwrap();
    let image = scene.at("root.sqsh");
    let words = [&directory, &image, "-quiet", "-no-progress", "-comp", "zstd"];
    assert!(Command::new("mksquashfs").args(words).status().unwrap().success());
    image
}

fn overlay(scene: &Scene, words: &[&str]) -> String {
    let image = scene.at("overlay.img");
    let words = [&["image", "overlay", "--sparse", &image, "64M"], words].concat();
    assert!(Command::new(BECALM).args(words).output().unwrap().status.success());
    image
}

/// A container with all that an image can have.
fn sif(scene: &Scene) -> String {
    let root = File::open(squashfs(scene)).unwrap();
    let over = File::open(overlay(scene, &[])).unwrap();
    let container = Container {
        labels: [("maintainer".to_owned(), "somebody".to_owned())].into(),
        deffile: Some("Bootstrap: scratch\n\tindented\x1b[2J\n".to_owned()),
        ..Container::default()
    };
    let metadata = container.inspect_metadata();
    let deffile = container.deffile.unwrap();
    let partition = |filesystem, role| {
        let arch = Arch::named("arm64").unwrap();
        Partition { filesystem, role, arch }
    };
    let system = partition(Filesystem::Squashfs, Role::PrimarySystem);
    let layer = partition(Filesystem::Ext3, Role::Overlay);
    let parts = [
        SifPart::of_bytes(SifObjectKind::Deffile, "", deffile.as_bytes()),
        SifPart::of_bytes(SifObjectKind::Json, INSPECT_METADATA, metadata.as_bytes()),
        SifPart::of_image(&root, "", system).unwrap(),
        SifPart::of_image(&over, "", layer).unwrap(),
    ];
    let path = scene.at("app.sif");
    write(&File::create(&path).unwrap(), &parts, 1_700_000_000).unwrap();
    path
}

#[test]
fn a_sif_is_shown_with_what_is_in_its_partitions() {
    let scene = Scene::new();
    let path = sif(&scene);
    let text = inspect(&[&path]).out();
    for part in [
        "for arm64, 4 objects, not signed",
        "primary system",
        "squashfs, zstd, 2 inodes",
        "ext3, 8.06 MiB used (13 %)",
        "maintainer",
        "made 2023-11-14 22:13 UTC",
        "becalm image inspect --deffile",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let value = json(&path);
    assert_eq!(value["kind"], "sif");
    assert_eq!(value["labels"]["maintainer"], "somebody");
    assert_eq!(value["objects"][2]["squashfs"]["compression"], "zstd");
    assert_eq!(value["objects"][3]["ext"]["filesystem"], "ext3");
    assert_eq!(value["objects"][3]["ext"]["bytes"], 64 << 20);
}

#[test]
fn the_definition_file_is_printed_and_does_not_steer_the_terminal() {
    let scene = Scene::new();
    let ran = inspect(&["--deffile", &sif(&scene)]);
    assert_eq!(ran.out(), "Bootstrap: scratch\n\tindented\\x1b[2J\n");
    let ran = inspect(&["--deffile", &scene.at("root.sqsh")]);
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
}

#[test]
fn a_squashfs_is_shown() {
    let scene = Scene::new();
    let path = squashfs(&scene);
    let ran = inspect(&[&path]);
    assert!(ran.out().contains("zstd, 2 inodes"), "{}", ran.out());
    let value = json(&path);
    assert_eq!(value["squashfs"]["inodes"], 2);
    assert_eq!(value["squashfs"]["manifest"], Value::Null);
}

#[test]
fn what_an_image_of_becalms_says_of_itself_is_as_documented() {
    let scene = Scene::new();
    let directory = scene.subdirectory("env");
    std::os::unix::fs::symlink("/usr/bin/env", format!("{directory}/link")).unwrap();
    let image = scene.at("env.sqsh");
    let ran = run(Command::new(BECALM).args(["image", "build", "-o", &image, &directory]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let value = json(&image);
    assert_eq!(value["squashfs"]["manifest"]["outside"][0]["what"], "/usr/bin/env");
}

#[test]
fn an_overlay_is_shown() {
    let scene = Scene::new();
    let path = overlay(&scene, &[]);
    let ran = inspect(&[&path]);
    assert!(ran.out().contains("ext3 of 64.0 MiB: "), "{}", ran.out());
    assert!(ran.out().contains("unmounted\ncleanly") || ran.out().contains("unmounted cleanly"));
    let value = json(&path);
    assert_eq!(value["ext"]["clean"], true);
}

#[test]
fn a_partition_that_is_not_what_its_row_says_is_named_beside_those_that_are() {
    let scene = Scene::new();
    let path = sif(&scene);
    let file = fs::read(&path).unwrap();
    let at = json(&path)["objects"][2]["offset"].as_u64().unwrap() as usize;
    let broken = scene.at("broken.sif");
    fs::write(&broken, [&file[..at], b"HSQS", &file[at + 4..]].concat()).unwrap();
    let value = json(&broken);
    assert!(value["objects"][2]["problem"].as_str().unwrap().contains("squashfs"), "{value:#}");
    assert_eq!(value["objects"][3]["problem"], Value::Null);
}

#[test]
fn what_is_no_image_or_a_broken_one_takes_one_line_and_status_1() {
    let scene = Scene::new();
    let path = sif(&scene);
    let whole = fs::read(&path).unwrap();
    // The table's place, from the header; the end of a squashfs, from its superblock.
    let mut table = whole.clone();
    table[96..104].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut squash = fs::read(scene.at("root.sqsh")).unwrap();
    squash[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
    let files = [
        scene.file("empty", "", 0o644),
        scene.file("text", "#!/bin/sh\nexit\n", 0o644),
        scene.file("cut", &whole[..5000], 0o644),
        scene.file("table", table, 0o644),
        scene.file("squash", squash, 0o644),
        scene.at("nothing"),
        scene.subdirectory("directory"),
        "/dev/zero".to_owned(),
    ];
    for file in files {
        let ran = inspect(&[&file]);
        assert_eq!((ran.code(), ran.out().as_str()), (1, ""), "{file}");
        assert_eq!(ran.err().lines().count(), 1, "{file}: {}", ran.err());
        assert!(ran.err().starts_with("becalm: "), "{file}: {}", ran.err());
    }
}
