//! `becalm image overlay` makes what a container can write to, and never harms what is there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;

use crate::BECALM;
use image_format::ReadAt;
use image_format::sif::{Filesystem, Role, Sif};
use serde_json::Value;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Ran, Scene, run};

fn overlay(words: &[&str]) -> Ran {
    let words = [&["image", "overlay"], words].concat();
    run(Command::new(BECALM).args(words).env("SOURCE_DATE_EPOCH", "1700000000"))
}

fn check(image: &str) {
    let checked = Command::new("e2fsck").args(["-fn", image]).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

/// A SIF with a root in it.
fn sif(scene: &Scene) -> String {
    let packed = "../image-format/tests/sample/siftool.sif.zst";
    let path = scene.at("app.sif");
    let words = ["-dq", packed, "-o", &path];
    assert!(Command::new("zstd").args(words).status().unwrap().success());
    path
}

#[test]
fn alone_it_is_its_makers_and_takes_its_room_at_once() {
    let scene = Scene::new();
    let path = scene.at("overlay.img");
    let ran = overlay(&["--json", "--create-dir", "/opt/env", &path, "64M"]);
    let value: Value = serde_json::from_str(&ran.out()).unwrap();
    assert_eq!(value["bytes"], 64 << 20);
    check(&path);
    let there = fs::metadata(&path).unwrap();
    assert_eq!((there.len(), there.permissions().mode() & 0o777), (64 << 20, 0o600));
    assert!(there.blocks() * 512 >= 64 << 20);
    let list = Command::new("debugfs").args(["-R", "ls /upper/opt", &path]).output().unwrap();
    assert!(String::from_utf8(list.stdout).unwrap().contains("env"));
}

#[test]
fn the_same_wishes_make_the_same_bytes() {
    let scene = Scene::new();
    let made = |name: &str| {
        let path = scene.at(name);
        assert_eq!(overlay(&["--sparse", &path, "64M"]).code(), 0);
        fs::read(path).unwrap()
    };
    assert!(made("one") == made("two"));
}

#[test]
fn an_ordinary_users_overlay_belongs_to_him() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let path = scene.at("overlay.img");
    let words = [&scene.at("becalm"), "image", "overlay", "--sparse", &path, "64M"];
    assert!(as_a_user(&words).status().unwrap().success());
    let list = Command::new("debugfs").args(["-R", "ls -l /", &path]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    for name in ["upper", "work"] {
        let line = list.lines().find(|line| line.ends_with(name)).unwrap();
        assert!(line.contains(" 65534  65534 "), "{line}");
    }
}

#[test]
fn in_a_sif_it_is_the_last_layer_and_the_sif_itself_is_not_touched() {
    let scene = Scene::new();
    let base = sif(&scene);
    let before = fs::read(&base).unwrap();
    let path = scene.at("new.sif");
    assert_eq!(overlay(&[&path, "64M", "--sif", &base]).code(), 0);
    assert!(fs::read(&base).unwrap() == before);

    let file = fs::File::open(&path).unwrap();
    let new = Sif::read(&file).unwrap();
    let layer = new.overlays().last().unwrap();
    let partition = layer.partition.unwrap();
    assert_eq!((partition.filesystem, partition.role), (Filesystem::Ext3, Role::Overlay));
    assert_eq!(partition.arch, new.primary().unwrap().partition.unwrap().arch);
    let mut ext3 = vec![0; layer.size as usize];
    layer.window(&file).unwrap().unwrap().read_exact_at(&mut ext3, 0).unwrap();
    check(&scene.file("layer", ext3, 0o644));
    let there = file.metadata().unwrap();
    assert!(there.blocks() * 512 >= 64 << 20 && there.permissions().mode() & 0o100 != 0);

    // A container writes to one layer.
    let ran = overlay(&[&scene.at("third.sif"), "64M", "--sif", &path]);
    assert_eq!(ran.code(), 1);
    assert!(ran.err().contains("has an overlay that can be written to already: object 8"));
}

#[test]
fn a_file_that_is_there_stays_as_it_is() {
    let scene = Scene::new();
    let file = scene.file("precious", "bytes", 0o644);
    let ran = overlay(&[&file, "64M"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.err().contains("precious: exists"), "{}", ran.err());
    assert_eq!(fs::read_to_string(&file).unwrap(), "bytes");
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let base = sif(&scene);
    let place = scene.subdirectory("small");
    let script = r#"
        mount -t tmpfs -o size=20m none "$1"
        "$2" image overlay "$1"/overlay.img 64M; echo $?
        "$2" image overlay "$1"/new.sif 64M --sif "$3"; echo $?
        ls -A "$1"; umount "$1""#;
    let words = ["-m", "sh", "-c", script, "sh", &place, BECALM, &base];
    let ran = run(Command::new("unshare").args(words));
    assert_eq!(ran.out(), "1\n1\n");
    assert_eq!(ran.err().matches("No space left on device").count(), 2, "{}", ran.err());
}

#[test]
fn a_directory_that_may_not_be_written_to_is_an_error() {
    let (scene, _) = scene_for_a_user(&[]);
    let _ = chown(scene.directory(), Some(0), Some(0));
    let path = scene.at("overlay.img");
    let words = [&scene.at("becalm"), "image", "overlay", &path, "64M"];
    let ran = run(&mut as_a_user(&words));
    if is_root() {
        assert_eq!(ran.code(), 1);
        assert!(ran.err().contains("Permission denied"), "{}", ran.err());
    }
}

#[test]
fn a_wrong_size_is_wrong_usage() {
    let scene = Scene::new();
    for size in ["63M", "16T", "64", "big"] {
        assert_eq!(overlay(&[&scene.at("x"), size]).code(), 2, "{size}");
    }
}

#[test]
fn the_next_line_names_the_program_that_is_there() {
    let scene = Scene::new();
    let path = scene.at("overlay.img");
    for (there, named) in [("apptainer", "apptainer"), ("singularity", "singularity")] {
        let programs = scene.subdirectory(there);
        scene.file(&format!("{there}/{there}"), "#!/bin/sh\n", 0o755);
        let words = ["image", "overlay", "--sparse", &path, "64M"];
        let ran = run(Command::new(BECALM).args(words).env("PATH", programs));
        assert!(ran.out().contains(&format!("Next: {named} shell --overlay ")), "{}", ran.out());
        fs::remove_file(&path).unwrap();
    }
}
