//! Another becalm is at work with the same state directory: it is waited for, and nothing is lost.

use std::fs::{self, File};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use testkit::live::Live;

use crate::BECALM;
use crate::scene::{Modulepath, both};

/// `becalm words…` while another becalm is at work, until that is said; then it ends.
#[track_caller]
fn waits(path: &Modulepath, words: &[&str]) {
    let [_, modules] = both();
    let state = path.at("state/becalm");
    fs::create_dir_all(&state).unwrap();
    let other = File::create(state.join("lock")).unwrap();
    flock(&other, FlockOperation::LockExclusive).unwrap();
    let mut all_it_says: Command = path.command("sh", &modules);
    all_it_says.args(["-c", "exec \"$@\" 2>&1", "sh", BECALM]).args(words);
    let mut becalm = Live::start(&mut all_it_says);
    let said = "waiting until it has ended";
    becalm.wait_for(&format!("becalm: another becalm is at work ({}): {said}", state.display()));
    drop(other);
    let ran = becalm.end();
    assert_eq!(ran.code(), 0, "{words:?}: {}", ran.out());
    assert!(!ran.out().contains(said), "{words:?}: said once: {}", ran.out());
}

#[test]
fn what_changes_files_waits_for_another_becalm() {
    let path = Modulepath::new();
    let tree = path.modulepath.display().to_string();
    let at = |name: &str| path.at(name).display().to_string();
    let (image, hooks) = (at("tree.sqsh"), at("hooks"));
    fs::create_dir(&hooks).unwrap();
    waits(&path, &["modules", "index", &tree]);
    waits(&path, &["modules", "cache", "build", &tree]);
    path.file("gcc/14", "#%Module\n");
    waits(&path, &["modules", "cache", "refresh", &tree]);
    waits(&path, &["modules", "calm", "--apply", "--hooks", &hooks, &tree]);
    waits(&path, &["image", "build", "-o", &image, &tree]);
    assert!(fs::exists(&image).unwrap());
    waits(&path, &["undo"]);
    assert!(!fs::exists(&image).unwrap());
}
