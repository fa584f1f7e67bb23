//! Root, and the ordinary user that becalm must serve as well.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use super::Scene;
use super::programs::copy_program;
use super::scene::{becalm, running};

const NOBODY: u32 = 65534;

/// Whether a test that needs root can run. Where it cannot, it fails in CI, and says so
/// elsewhere.
#[track_caller]
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    assert!(root || std::env::var_os("CI").is_none(), "this test needs root");
    if !root {
        eprintln!("skipped: this test needs root");
    }
    root
}

/// A scene in which an ordinary user can record, with a becalm that he can run and copies of
/// `programs`, whose paths are given back.
pub fn scene_for_a_user(programs: &[&str]) -> (Scene, Vec<String>) {
    let scene = Scene::new();
    let _ = chown(scene.directory(), Some(NOBODY), Some(NOBODY));
    let own = scene.at("becalm");
    fs::hard_link(becalm(), &own).unwrap_or_else(|_| copy_program(becalm(), &own));
    let copy = |program: &&str| {
        let name = Path::new(program).file_name().unwrap().to_str().unwrap();
        let copy = scene.at(name);
        copy_program(program, &copy);
        copy
    };
    let copies = programs.iter().map(copy).collect();
    (scene, copies)
}

/// Words run as an ordinary user: as nobody, if root runs the tests.
pub fn as_a_user<S: AsRef<OsStr>>(words: &[S]) -> Command {
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    command.arg("--").args(words);
    command
}

/// A group that [`as_a_member`] is in besides its own.
pub const SECOND_GROUP: u32 = 2345;

/// Words run as nobody who is in a second group, too. Root must run the tests.
pub fn as_a_member(words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534"]).arg(format!("--groups={SECOND_GROUP}"));
    command.arg("--").args(words);
    command
}

/// The same, where the site grants nobody that group (subgid(5)), for this command only.
pub fn as_a_granted_member(scene: &Scene, words: &[&str]) -> Command {
    let grants = scene.at("subgid");
    fs::write(&grants, format!("65534:{SECOND_GROUP}:1\n")).unwrap();
    let member = as_a_member(words);
    let script = "touch /etc/subgid; mount --bind \"$0\" /etc/subgid && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, &grants]);
    command.arg(member.get_program()).args(member.get_args());
    command
}

/// What [`Scene::record`] gives, run as an ordinary user by his copy of becalm.
pub fn record_as_a_user(scene: &Scene, words: &[&str]) -> Command {
    let record = scene.record_with(Path::new(&scene.at("becalm")), &[], words);
    running(as_a_user(&[""; 0]), &record)
}
