//! `becalm image extract` unpacks an image, and says what is not as it was.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Ran, Scene, run};

fn becalm(words: &[&str]) -> Ran {
    run(Command::new(BECALM).arg("image").args(words).env("COLUMNS", "80"))
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

/// An image has no place for lists: the group's permissions are the mask there, and who is kept out by
/// name is among all others.
#[test]
fn nobody_may_do_more_with_what_is_extracted_than_by_its_access_control_list() {
    let scene = Scene::new();
    let (directory, image) = (scene.subdirectory("env"), scene.at("i.sqsh"));
    for (name, mode, list) in [
        ("masked", 0o600, "u:2000:r"),
        ("denied", 0o644, "u:1000:-"),
        ("denied_group", 0o644, "g:1000:-"),
        ("shared", 0o644, "u:2000:rw"),
    ] {
        let file = format!("{directory}/{name}");
        fs::write(&file, name).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        assert_eq!(run(Command::new("setfacl").args(["-m", list, &file])).code(), 0);
    }
    for words in [vec!["build"], vec!["build", "--no-xattrs"]] {
        let ran = becalm(&[&words[..], &["-o", &image, &directory]].concat());
        assert_eq!(ran.code(), 0, "{}", ran.err());
        assert!(ran.out().contains("4 access control lists of files and directories are not kept"));
        assert!(ran.out().contains("`getfacl -Rs`"));
        let said = run(Command::new("getfacl").args(["-Rs", "-p", &directory])).out();
        assert_eq!(said.matches("# file: ").count(), 4, "{said}");
        // Where new files get a list, these get none.
        let open = scene.subdirectory(&format!("open{}", words.len()));
        let by_default = ["-dm", "u:1000:rwx,g:1000:rwx,o::rwx", &open];
        assert_eq!(run(Command::new("setfacl").args(by_default)).code(), 0);
        let out = format!("{open}/out");
        assert_eq!(becalm(&["extract", &image, &out]).code(), 0);
        let lists = run(Command::new("getfacl").args(["-Rsp", &out])).out();
        assert_eq!(lists, "", "none but the permissions");
        let mode = |name: &str| fs::metadata(format!("{out}/{name}")).unwrap().mode() & 0o777;
        let modes = ["masked", "denied", "denied_group", "shared"].map(mode);
        assert_eq!(modes, [0o600, 0o600, 0o640, 0o644], "{words:?}");
    }
}

#[test]
fn an_empty_directory_keeps_who_may_do_what_with_it() {
    let scene = Scene::new();
    let (directory, image) = packed(&scene);
    let out = scene.subdirectory("out");
    let list = || run(Command::new("getfacl").args(["-cnp", &out])).out();
    let words = ["-m", "u:1234:rx", "-m", "d:u:1234:rx", &out];
    assert_eq!(run(Command::new("setfacl").args(words)).code(), 0);
    fs::set_permissions(&out, PermissionsExt::from_mode(0o2710)).unwrap();
    let about = || fs::metadata(&out).map(|it| (it.mode(), it.uid(), it.gid())).unwrap();
    let before = (list(), about());
    // Through a link as well.
    let link = scene.at("link");
    std::os::unix::fs::symlink("out", &link).unwrap();
    let ran = becalm(&["extract", &image, &link]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!((list(), about()), before);
    assert_eq!(differ(&directory, &out), "");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let names = fs::read_dir(scene.directory()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.map(|name| name.into_string().unwrap()).any(|name| name.starts_with(".becalm")));
}

#[test]
fn what_no_other_directory_can_take_the_place_of_is_refused_before() {
    let scene = Scene::new();
    let (_, image) = packed(&scene);
    let out = scene.subdirectory("out");
    let mut here = Command::new(BECALM);
    let ran = run(here.args(["image", "extract", &image, "."]).current_dir(&out));
    assert_eq!(ran.code(), 1);
    assert!(ran.err().contains(".: is the working directory, so no other"), "{}", ran.err());
    std::os::unix::fs::symlink("nothing", scene.at("link")).unwrap();
    let ran = becalm(&["extract", &image, &scene.at("link")]);
    assert_eq!(ran.code(), 1);
    assert!(ran.err().contains("link: is a link to nothing"), "{}", ran.err());
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
}

#[test]
fn what_is_interrupted_leaves_all_or_nothing() {
    let scene = Scene::new();
    let many = scene.subdirectory("many");
    for number in 0..3000 {
        fs::write(format!("{many}/{number}"), "content").unwrap();
    }
    let image = scene.at("many.sqsh");
    assert_eq!(becalm(&["build", "-o", &image, &many]).code(), 0);
    let above = scene.subdirectory("above");
    let names = || fs::read_dir(&above).unwrap().count();
    let out = format!("{above}/out");
    let mut extract = Command::new(BECALM);
    extract.args(["image", "extract", "--writers", "1", &image, &out]);
    let mut extracting = extract.stdout(std::process::Stdio::null()).spawn().unwrap();
    testkit::live::wait_until("something is made", || names() > 0);
    // SAFETY: passes numbers; the child is not reaped yet.
    unsafe { libc::kill(extracting.id() as i32, libc::SIGTERM) };
    extracting.wait().unwrap();
    match fs::metadata(&out) {
        Ok(_) => assert_eq!((differ(&many, &out).as_str(), names()), ("", 1)),
        Err(_) => assert_eq!(names(), 0),
    }
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
