//! `becalm image extract` unpacks an image, and says what is not as it was.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::schema::Schema;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Ran, Scene, run};

fn becalm(words: &[&str]) -> Ran {
    run(Command::new(BECALM).arg("image").args(words).env("COLUMNS", "80"))
}

fn schema() -> Schema {
    Schema::of(include_str!("../../../../docs/schema/becalm.image.extract.md"))
}

/// A directory and its image.
fn packed(scene: &Scene) -> (String, String) {
    let directory = scene.subdirectory("env");
    fs::create_dir(format!("{directory}/bin")).unwrap();
    fs::write(format!("{directory}/bin/tool"), "content").unwrap();
    let mode = PermissionsExt::from_mode(0o4755);
    fs::set_permissions(format!("{directory}/bin/tool"), mode).unwrap();
    std::os::unix::fs::symlink("tool", format!("{directory}/bin/link")).unwrap();
    let image = scene.at("env.sqsh");
    let ran = becalm(&["build", "-o", &image, &directory]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    (directory, image)
}

fn differ(a: &str, b: &str) -> String {
    let ran = Command::new("diff").args(["-r", "--no-dereference", a, b]).output().unwrap();
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn what_was_packed_is_unpacked_and_the_answer_is_as_documented() {
    let scene = Scene::new();
    let (directory, image) = packed(&scene);
    let out = scene.at("out");
    let ran = becalm(&["extract", "--json", &image, &out]);
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
    let value: Value = serde_json::from_str(&ran.out()).unwrap();
    schema().holds(&value, "squashfs");
    schema().holds(&schema().example(), "squashfs");
    assert_eq!(value["stands_for"], directory.as_str());
    assert_eq!((&value["files"], &value["directories"]), (&1.into(), &2.into()));
    assert_eq!(differ(&directory, &out), "");
    let ran = becalm(&["extract", &image, &out]);
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
    assert!(ran.err().contains("out: exists, and is not empty"), "{}", ran.err());
}

#[test]
fn an_ordinary_user_gets_his_own_files_and_nobodys_rights() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let (directory, image) = packed(&scene);
    // What no user may make.
    let device = format!("{directory}/null");
    assert!(Command::new("mknod").args([&device, "c", "1", "3"]).status().unwrap().success());
    assert_eq!(becalm(&["build", "-o", &image, &directory]).code(), 0);
    let out = scene.at("out");
    let ran = run(&mut as_a_user(&[&scene.at("becalm"), "image", "extract", &image, &out]));
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
    for said in ["all files are yours", "1 device that only root can make: null"] {
        assert!(ran.out().contains(said), "{said} is not in {}", ran.out());
    }
    assert_eq!(differ(&directory, &out), format!("Only in {directory}: null\n"));
    let tool = fs::metadata(format!("{out}/bin/tool")).unwrap();
    assert_eq!((tool.uid(), tool.mode() & 0o7777), (65534, 0o755), "no set-user-ID");
}

#[test]
fn of_a_sif_each_object_can_be_unpacked() {
    let scene = Scene::new();
    let (directory, _) = packed(&scene);
    let root = scene.subdirectory("root");
    fs::create_dir(format!("{root}/bin")).unwrap();
    fs::copy("/bin/sh", format!("{root}/bin/sh")).unwrap();
    let (base, sif) = (scene.at("base.sif"), scene.at("app.sif"));
    for words in [
        &["build", "-o", &base, &root][..],
        &["build", "-o", &sif, "--base", &base, "--overlay", "64M", "--sparse", &directory],
    ] {
        let ran = becalm(words);
        assert_eq!(ran.code(), 0, "{}", ran.err());
    }
    let ran = becalm(&["extract", &sif, &scene.at("1")]);
    assert!(ran.out().contains("object 3, laid over this one"), "{}", ran.out());
    assert!(fs::metadata(scene.at("1/bin/sh")).unwrap().is_file());
    let ran = becalm(&["extract", "--object", "3", &sif, &scene.at("3")]);
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
    assert_eq!(differ(&directory, &format!("{}{directory}", scene.at("3"))), "");
    for (object, why) in [("1", "is no partition"), ("4", "is ext3"), ("9", "has no object 9")] {
        let ran = becalm(&["extract", "--object", object, &sif, &scene.at("other")]);
        assert_eq!(ran.code(), 1);
        assert!(ran.err().contains(why) && ran.err().lines().count() == 1, "{}", ran.err());
        assert!(fs::metadata(scene.at("other")).is_err());
    }
}
