//! `becalm modules watch`, with the real Modules, strace and changes of every kind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use testkit::live::wait_until;

use crate::BECALM;
use crate::scene::{Modulepath, Modules, both};

/// A watcher that ends with the test.
pub struct Watcher(Child);

impl Watcher {
    /// Watches a tree, and answers for it by now.
    pub fn over(scene: &Modulepath, modules: &Modules) -> Watcher {
        let mut command = scene.command(BECALM, modules);
        command.args(["modules", "watch"]).env("XDG_STATE_HOME", scene.at("state"));
        let watcher = Watcher(command.stdout(Stdio::null()).spawn().unwrap());
        wait_until("the watcher answers", || is_watched(scene, modules));
        watcher
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A tree with more directories than are looked at where somebody watches.
fn scene() -> Modulepath {
    let scene = Modulepath::new();
    for number in 0..20 {
        scene.file(&format!("lib{number}/1.0"), "#%Module\n");
    }
    scene
}

fn avail(scene: &Modulepath, modules: &Modules) -> Output {
    scene.becalm(modules, &["avail", "-t"])
}

/// What Modules lists, whoever has to answer.
fn listed(scene: &Modulepath, modules: &Modules) -> String {
    let output = avail(scene, modules);
    match output.status.code() {
        Some(0) => String::from_utf8(output.stderr).unwrap(),
        Some(75) => real(scene, modules),
        _ => panic!("{output:?}"),
    }
}

fn real(scene: &Modulepath, modules: &Modules) -> String {
    String::from_utf8(scene.real(modules, &["avail", "-t"]).stderr).unwrap()
}

/// How often `becalm modules avail` looks at what is in the tree.
fn looks(scene: &Modulepath, modules: &Modules) -> usize {
    let log = scene.at("strace");
    let mut strace = scene.command("strace", modules);
    strace.args(["-f", "-qq", "-e", "trace=%file", "-o"]).arg(&log).args(["--", BECALM]);
    assert!(strace.args(["modules", "avail", "-t"]).output().unwrap().status.code().is_some());
    let inside = format!("\"{}/", scene.modulepath.display());
    fs::read_to_string(&log).unwrap().matches(&inside).count()
}

/// Whether somebody answers for the tree. What is not for everyone is looked at all the same.
fn is_watched(scene: &Modulepath, modules: &Modules) -> bool {
    looks(scene, modules) < 10
}

#[test]
fn where_a_tree_is_watched_nothing_in_it_is_looked_at() {
    for modules in both() {
        let scene = scene();
        scene.index(&modules);
        assert!(looks(&scene, &modules) > 40);
        let _watcher = Watcher::over(&scene, &modules);
        let output = avail(&scene, &modules);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), real(&scene, &modules));
    }
}

#[test]
fn every_change_shows_in_the_very_next_answer() {
    let [modules, _] = both();
    let scene = scene();
    let outside = scene.at("another-name");
    fs::hard_link(scene.modulepath.join("lib3/1.0"), &outside).unwrap();
    let watcher = Watcher::over(&scene, &modules);
    let at = |name: &str| scene.modulepath.join(name);
    let mode = |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode));
    type Change<'a> = (&'a str, Box<dyn Fn() -> std::io::Result<()> + 'a>);
    let changes: Vec<Change<'_>> = vec![
        ("a file is added", Box::new(|| fs::write(at("lib1/2.0"), "#%Module\n"))),
        ("a file is removed", Box::new(|| fs::remove_file(at("lib1/1.0")))),
        ("a directory is added", Box::new(|| fs::create_dir(at("new")))),
        ("and a file in it", Box::new(|| fs::write(at("new/1"), "#%Module\n"))),
        ("a directory is renamed", Box::new(|| fs::rename(at("new"), at("newer")))),
        ("a file loses its cookie", Box::new(|| fs::write(at("lib2/1.0"), "no module\n"))),
        ("a file is written by another name", Box::new(|| fs::write(&outside, "no module\n"))),
        ("a file is closed to others", Box::new(|| mode("lib4/1.0", 0o600))),
        ("a directory is closed to others", Box::new(|| mode("lib5", 0o700))),
        (
            "a default is changed",
            Box::new(|| fs::write(at("gcc/.version"), "#%Module\nset ModulesVersion 12\n")),
        ),
        (
            "an rc file is added",
            Box::new(|| fs::write(at("lib6/.modulerc"), "#%Module\nmodule-version lib6/1.0 old\n")),
        ),
        ("a link is added", Box::new(|| std::os::unix::fs::symlink("1.0", at("lib7/link")))),
        (
            "the tree is another",
            Box::new(|| {
                fs::rename(&scene.modulepath, scene.at("before"))?;
                fs::create_dir_all(at("other"))?;
                fs::write(at("other/1"), "#%Module\n")
            }),
        ),
    ];
    for (change, make) in changes {
        // So that it is not answered by a look, but by whoever watches.
        wait_until(change, || is_watched(&scene, &modules));
        let before = listed(&scene, &modules);
        make().unwrap();
        let after = listed(&scene, &modules);
        assert_eq!(after, real(&scene, &modules), "{change}");
        let is_for_others = change.contains("closed") || change == "a directory is added";
        assert!(after != before || is_for_others, "{change}");
    }
    drop(watcher);
}

#[test]
fn a_watcher_that_is_stopped_or_dead_is_no_reason_for_an_old_answer() {
    let [modules, _] = both();
    let scene = scene();
    let watcher = Watcher::over(&scene, &modules);
    watcher.signal("-STOP");
    scene.file("gcc/14", "#%Module\n");
    assert_eq!(listed(&scene, &modules), real(&scene, &modules));
    watcher.signal("-KILL");
    scene.file("gcc/15", "#%Module\n");
    assert_eq!(listed(&scene, &modules), real(&scene, &modules));
    assert!(real(&scene, &modules).contains("gcc/15"));
}

/// Answers like a watcher, with what a true one has said before.
const REPLAYED: &str = r#"
import os, socket, sys
name, said = sys.argv[1].encode(), bytes.fromhex(sys.argv[2])
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(b'\0' + name)
listener.listen(8)
print('there', flush=True)
while True:
    asking, _ = listener.accept()
    asking.send(said)
"#;

const ASKED: &str = r#"
import socket, sys
asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asking.connect(b'\0' + sys.argv[1].encode())
print(asking.recv(512).hex())
"#;

/// Has `REPLAYED` answer as a user, and gives what `becalm modules avail` answers then.
fn answered_by(
    user: &str,
    name: &str,
    said: &str,
    scene: &Modulepath,
    modules: &Modules,
) -> Output {
    let mut replay = Command::new("setpriv");
    replay.args(["--reuid", user, "--clear-groups", "/usr/bin/python3", "-c", REPLAYED]);
    let mut replay = replay.args([name, said]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 6];
    std::io::Read::read_exact(replay.stdout.as_mut().unwrap(), &mut line).unwrap();
    let output = avail(scene, modules);
    replay.kill().unwrap();
    replay.wait().unwrap();
    output
}

#[test]
fn who_is_neither_root_nor_the_owner_nor_oneself_is_not_believed() {
    if !testkit::user::is_root() {
        return;
    }
    use std::os::unix::fs::MetadataExt;
    let [modules, _] = both();
    let scene = scene();
    let about = fs::metadata(&scene.modulepath).unwrap();
    let name = format!("becalm-watched-{:x}-{:x}", about.dev(), about.ino());
    let watcher = Watcher::over(&scene, &modules);
    let mut said = String::new();
    // Nothing is said just after something was mounted anywhere.
    wait_until("the watcher says something", || {
        let asked = Command::new("/usr/bin/python3").args(["-c", ASKED, &name]).output().unwrap();
        said = String::from_utf8(asked.stdout).unwrap();
        !said.trim().is_empty()
    });
    drop(watcher);
    scene.file("gcc/14", "#%Module\n");
    let of = |user| answered_by(user, &name, said.trim(), &scene, &modules).status.code();
    // By root's word, the index is taken though the tree has changed: so it is the word that counts. On
    // a busy machine it may come too late.
    wait_until("root is believed", || of("0") == Some(0));
    for _ in 0..3 {
        assert_eq!(of("1234"), Some(75));
    }
}

#[test]
fn what_is_mounted_over_a_part_of_the_tree_is_seen() {
    if !testkit::user::is_root() {
        return;
    }
    let [modules, _] = both();
    let scene = scene();
    let _watcher = Watcher::over(&scene, &modules);
    let script = "mount -t tmpfs none \"$1\" && exec \"$2\" modules avail -t";
    let mut there = scene.command("unshare", &modules);
    there.args(["--mount", "sh", "-c", script, "sh"]).arg(scene.modulepath.join("gcc")).arg(BECALM);
    assert_eq!(there.output().unwrap().status.code(), Some(75));
}

#[test]
fn a_filesystem_that_others_change_is_not_watched() {
    if !testkit::user::is_root() {
        return;
    }
    let [modules, _] = both();
    let scene = scene();
    for directory in ["upper", "work"] {
        fs::create_dir(scene.at(directory)).unwrap();
    }
    let overlay = |directory: &Path| {
        format!(
            "lowerdir={0},upperdir={1}/upper,workdir={1}/work",
            directory.display(),
            scene.at("").display()
        )
    };
    let script = "mount -t overlay none -o \"$1\" \"$2\" && exec \"$3\" modules watch";
    let mut there = scene.command("unshare", &modules);
    there.args(["--mount", "sh", "-c", script, "sh", &overlay(&scene.modulepath)]);
    let output = there.arg(&scene.modulepath).arg(BECALM).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("others may change"), "{said}");
}
