//! `becalm modules tidy`: the cookbook's steps with the real modulecmd, for several users, and
//! taken back where somebody would see or wait otherwise.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::scene::debians;
use crate::BECALM;
use serde_json::Value;
use testkit::{Ran, Scene, run};

/// The cookbook's tree; its modulepaths, in the order in which they are searched.
fn cookbook(scene: &Scene) -> Vec<String> {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules/make");
    let made = run(Command::new(make).arg("plain").arg(scene.at("tree")));
    assert_eq!(made.code(), 0, "{}", made.err());
    fs::set_permissions(scene.directory(), fs::Permissions::from_mode(0o755)).unwrap();
    made.out().trim_end().split(':').map(str::to_owned).collect()
}

fn becalm(scene: &Scene, words: &[&str]) -> Ran {
    let mut becalm = Command::new(BECALM);
    run(becalm.args(words).env("XDG_STATE_HOME", scene.at("state")))
}

fn tidy(scene: &Scene, paths: &[String], options: &[&str]) -> Ran {
    let mut words = vec!["modules", "tidy"];
    words.extend(options);
    words.extend(paths.iter().map(String::as_str));
    becalm(scene, &words)
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out()).unwrap_or_else(|error| panic!("{error}: {}", ran.err()))
}

/// Every file of the tree: its path, permissions and content.
fn content(scene: &Scene) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut files = Vec::new();
    let mut directories = vec![PathBuf::from(scene.at("tree"))];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let seen = path.symlink_metadata().unwrap();
            if seen.is_dir() {
                directories.push(path);
            } else {
                let content = fs::read(&path).unwrap_or_default();
                files.push((path, seen.permissions().mode(), content));
            }
        }
    }
    files.sort();
    files
}

fn calls(answer: &Value, command: &str) -> (u64, u64) {
    let changes = answer["verdict"]["changes"].as_array().unwrap();
    let change = changes.iter().find(|change| change["command"] == command).unwrap();
    (change["calls_before"].as_u64().unwrap(), change["calls_after"].as_u64().unwrap())
}

#[test]
fn the_cookbooks_tree_asks_less_and_no_user_sees_another_answer_and_undo_restores_it() {
    let scene = Scene::new();
    let paths = cookbook(&scene);
    let before = content(&scene);
    let planned = tidy(&scene, &paths, &["--json"]);
    assert_eq!(planned.code(), 0, "{}", planned.err());
    assert_eq!(content(&scene), before, "a plan writes nothing");
    let ran = tidy(&scene, &paths, &["--apply", "--json"]);
    assert_eq!(ran.code(), 0, "{}\n{}", ran.out(), ran.err());
    let answer = json(&ran);
    assert_eq!(answer["verdict"]["differences"], Value::Array(Vec::new()));
    assert_eq!(answer["moved"].as_array().unwrap().len(), 4);
    assert_eq!(answer["merged"].as_array().unwrap().len(), 15, "those of the last modulepath");
    let (avail, after) = calls(&answer, "module avail");
    assert!(avail - after >= answer["saved_calls"].as_u64().unwrap(), "{avail} to {after}");
    for change in answer["verdict"]["changes"].as_array().unwrap() {
        assert!(change["calls_after"].as_u64() <= change["calls_before"].as_u64(), "{change}");
    }
    assert!(!Path::new(&paths[1]).join("appa/.version").exists());
    let undone = becalm(&scene, &["undo"]);
    assert_eq!(undone.code(), 0, "{}", undone.err());
    assert_eq!(content(&scene), before);
}

#[test]
fn a_plan_that_could_not_be_applied_says_so_before_it_is_tried() {
    let scene = Scene::new();
    let paths = cookbook(&scene);
    // Where the state would be, there is a file.
    let state = scene.at("file/state");
    fs::write(scene.at("file"), "").unwrap();
    let tried = |options: &[&str]| {
        let mut becalm = Command::new(BECALM);
        becalm.args(["modules", "tidy"]).args(options).args(&paths);
        run(becalm.env("XDG_STATE_HOME", &state))
    };
    let planned = tried(&[]);
    assert_eq!(planned.code(), 1, "{}", planned.err());
    assert!(planned.out().starts_with("Would "), "{}", planned.out());
    assert!(!planned.out().contains("Next:"), "{}", planned.out());
    assert!(planned.err().contains("it could not be applied now: "), "{}", planned.err());
    assert_eq!(tried(&["--apply"]).code(), 1);
}

#[test]
fn without_cookie_checks_hidden_files_are_hidden_from_just_those_who_do_not_see_them() {
    let scene = Scene::new();
    let paths = cookbook(&scene);
    let ran = tidy(&scene, &paths, &["--apply", "--no-cookie-checks", "--json"]);
    assert_eq!(ran.code(), 0, "{}\n{}", ran.out(), ran.err());
    let answer = json(&ran);
    assert_eq!(answer["hidden"].as_array().unwrap().len(), 8);
    assert_eq!(answer["environment"][0][0], "MODULES_MCOOKIE_CHECK");
    let (before, after) = calls(&answer, "module avail");
    assert!(after + 400 < before, "{before} to {after}");
}

#[test]
fn a_load_that_would_become_dearer_keeps_its_rc_files_unless_that_is_asked_for() {
    let scene = Scene::new();
    let paths = cookbook(&scene);
    let answer = json(&tidy(&scene, &paths, &["--json"]));
    let kept: Vec<&Value> = answer["kept"].as_array().unwrap().iter().collect();
    assert_eq!(kept.len(), 15);
    assert!(kept.iter().all(|kept| kept["reason"].as_str().unwrap().contains("6 calls more")));
    let answer = json(&tidy(&scene, &paths, &["--json", "--slower-load"]));
    assert_eq!(answer["merged"].as_array().unwrap().len(), 30);
}

#[test]
fn what_changes_somebodys_view_is_taken_back_and_said() {
    let scene = Scene::new();
    let root = PathBuf::from(scene.at("tree"));
    fs::create_dir_all(root.join("foo")).unwrap();
    fs::write(root.join("foo/1"), "#%Module\nmodule-whatis x\n").unwrap();
    fs::write(root.join("foo/2"), WATCHFUL).unwrap();
    fs::write(root.join("foo/NOTES"), "what whatis says\n").unwrap();
    for number in 3..12 {
        fs::write(root.join("foo").join(number.to_string()), "#%Module\n").unwrap();
    }
    fs::set_permissions(scene.directory(), fs::Permissions::from_mode(0o755)).unwrap();
    let before = content(&scene);
    let paths = [root.to_str().unwrap().to_owned()];
    let ran = tidy(&scene, &paths, &["--apply", "--json"]);
    let answer = json(&ran);
    assert_eq!((ran.code(), &answer["taken_back"]), (1, &Value::Bool(true)), "{answer}");
    let difference = &answer["verdict"]["differences"][0];
    assert_eq!(difference["command"], "module load foo/2", "{answer}");
    assert_eq!(content(&scene), before);
}

/// What a `module load` gives the shell to do.
fn load(root: &Path, name: &str) -> String {
    let mut load = Command::new(debians());
    load.args(["bash", "load", name]).env("MODULEPATH", root).env_remove("LOADEDMODULES");
    run(&mut load).out()
}

#[test]
fn what_a_load_reads_stays_and_the_rest_is_tidied() {
    let scene = Scene::new();
    let root = PathBuf::from(scene.at("tree"));
    let names: Vec<String> = (0..12).map(|number| format!("app{number:02}/1")).collect();
    for name in &names {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), "#%Module\n").unwrap();
        fs::write(root.join(name).with_file_name("README"), "text\n").unwrap();
    }
    // Not one of the few whose load is timed.
    let reader = "#%Module\nset files [glob [file dirname $ModulesCurrentModulefile]/*]\n\
                  setenv FILES [join [lsort $files] :]\n";
    fs::write(root.join("app01/1"), reader).unwrap();
    fs::set_permissions(scene.directory(), fs::Permissions::from_mode(0o755)).unwrap();
    let paths = [root.to_str().unwrap().to_owned()];
    let loads = || names.iter().map(|name| load(&root, name)).collect::<Vec<_>>();
    let before = loads();
    let ran = tidy(&scene, &paths, &["--apply", "--json"]);
    assert_eq!(ran.code(), 0, "{}\n{}", ran.out(), ran.err());
    assert_eq!(loads(), before);
    assert!(root.join("app01/README").exists());
    assert_eq!(json(&ran)["moved"].as_array().unwrap().len(), 11);
    let kept = &json(&ran)["kept"][0];
    assert!(kept["reason"].as_str().unwrap().contains("app01/1 may read it"), "{kept}");
}

/// A modulefile that looks for a file beside it, by words that it does not write out: the plan
/// cannot know of it.
const WATCHFUL: &str = "#%Module\n\
    set own [set [string map {X Current} ModulesXModulefile]]\n\
    set beside [file dirname $own]/NO\\u0054ES\n\
    setenv FOO [[string map {X il} fXe] exists $beside]\n";

#[test]
fn a_modules_that_does_not_run_proves_nothing() {
    let scene = Scene::new();
    let paths = cookbook(&scene);
    let before = content(&scene);
    let own = fs::read_to_string(debians()).unwrap();
    let broken = scene.at("modulecmd.tcl");
    fs::write(&broken, format!("{own}\nexit 0\n").replacen("\n", "\nexit 0\n", 1)).unwrap();
    let ran = tidy(&scene, &paths, &["--apply", "--modulecmd", &broken]);
    assert_eq!(ran.code(), 1);
    assert!(ran.err().contains("it says nothing"), "{}", ran.err());
    assert_eq!(content(&scene), before);
}

#[test]
fn asked_to_end_it_leaves_the_tree_as_it_was() {
    let scene = Scene::new();
    let paths = cookbook(&scene);
    let before = content(&scene);
    let mut strace = Command::new("strace");
    strace.args(["-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync,syncfs"]);
    strace.args(["-e", "inject=fsync,fdatasync,syncfs:signal=TERM:when=1"]);
    strace.arg(BECALM).args(["modules", "tidy", "--apply"]).args(&paths);
    let ran = run(strace.env("XDG_STATE_HOME", scene.at("state")));
    assert_eq!(ran.status.signal(), Some(15), "{} {}", ran.out(), ran.err());
    assert!(ran.err().contains("asked to end; every file is as it was"), "{}", ran.err());
    assert_eq!(content(&scene), before);
}

#[test]
fn a_fifo_is_named_and_not_waited_for() {
    let scene = Scene::new();
    let paths = cookbook(&scene);
    let fifo = format!("{}/appa/pipe", paths[1]);
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let ran = tidy(&scene, &paths, &["--apply"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.err().contains("appa/pipe"), "{}", ran.err());
}

#[test]
fn virtual_modulepaths_are_for_what_everyone_may_read() {
    let scene = Scene::new();
    let paths = cookbook(&scene);
    let refused = tidy(&scene, &paths, &["--virtual", &scene.at("virtual")]);
    assert_eq!(refused.code(), 1);
    assert!(refused.out().contains("not everyone may read it"), "{}", refused.out());
}

/// The modulepaths of a tree that everyone may read: some directories of the cookbook's.
fn readable(scene: &Scene) -> Vec<String> {
    let paths = cookbook(scene);
    for directory in paths.iter().flat_map(|path| fs::read_dir(path).unwrap()) {
        let directory = directory.unwrap();
        let letter = directory.file_name().into_encoded_bytes().last().copied();
        if directory.file_type().unwrap().is_dir() && !matches!(letter, Some(b'a'..=b'd' | b'g')) {
            fs::remove_dir_all(directory.path()).unwrap();
        }
    }
    for name in ["applications/appg", "libraries/libg"] {
        let file = PathBuf::from(scene.at("tree")).join(name).join("1.0");
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    }
    paths
}

#[test]
fn virtual_modulepaths_that_make_loads_dearer_are_taken_back() {
    let scene = Scene::new();
    let paths = readable(&scene);
    let virtually = ["--apply", "--json", "--virtual", &scene.at("virtual")];
    let dear = json(&tidy(&scene, &paths, &virtually));
    assert_eq!(dear["taken_back"], true, "each load looks at every module's file: {dear}");
    assert!(!Path::new(&scene.at("virtual")).exists());
}

#[test]
fn virtual_modulepaths_show_the_same_where_everyone_may_read_everything() {
    let scene = Scene::new();
    let paths = readable(&scene);
    let virtually = ["--apply", "--json", "--slower-load", "--virtual", &scene.at("virtual")];
    let ran = tidy(&scene, &paths, &virtually);
    let answer = json(&ran);
    assert_eq!(ran.code(), 0, "{answer}");
    assert_eq!(answer["virtuals"].as_array().unwrap().len(), 2);
    let (before, after) = calls(&answer, "module avail");
    assert!(after < before, "{before} to {after}");
}

#[test]
fn a_modulepath_of_any_bytes_is_answered_as_json() {
    let scene = Scene::new();
    let path = scene.directory().join(OsStr::from_bytes(b"m\xff"));
    fs::create_dir_all(path.join("app")).unwrap();
    fs::write(path.join("app/1.0"), "#%Module\n").unwrap();
    fs::write(path.join("app/README"), "no modulefile\n").unwrap();
    let mut becalm = Command::new(BECALM);
    becalm.args(["modules", "tidy", "--json"]).arg(&path);
    let ran = run(becalm.env("XDG_STATE_HOME", scene.at("state")));
    let shown = json(&ran)["modulepath"][0].as_str().unwrap().to_owned();
    assert!(shown.ends_with(r"m\xff"), "{shown}");
}
