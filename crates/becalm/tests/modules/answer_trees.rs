//! An answer that depends on all of a modulepath, whose index stands in for it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::answer::{Asking, settle, with_each};
use crate::scene::{Modulepath, Modules, all};
use crate::watch::Watcher;

const WHATIS: &[&str] = &["whatis"];

/// 300 names in two versions, and what an index leaves to each user.
fn large() -> Modulepath {
    let scene = Modulepath::new();
    for number in 0..300 {
        for version in 1..3 {
            let text = format!("#%Module\nmodule-whatis {{name{number}, version {version}}}\n");
            scene.file(&format!("name{number:03}/{version}"), &text);
        }
    }
    symlink("1", scene.modulepath.join("name000/link")).unwrap();
    scene
}

/// How many calls of becalm name something in the tree.
fn looks(asking: &Asking<'_>) -> usize {
    looks_for(asking, WHATIS)
}

fn looks_for(asking: &Asking<'_>, words: &[&str]) -> usize {
    let log = asking.scene.at("looks");
    let inner = asking.becalm(words);
    let mut strace = asking.scene.command("strace", asking.modules);
    strace.args(["-f", "-qq", "-e", "trace=%file", "-o"]).arg(&log).arg("--");
    strace.arg(inner.get_program()).args(inner.get_args());
    assert!(strace.current_dir(&asking.scene.modulepath).output().unwrap().status.success());
    let tree = asking.scene.modulepath.display().to_string();
    fs::read_to_string(log).unwrap().matches(&tree).count()
}

fn remembered<'a>(scene: &'a Modulepath, modules: &'a Modules) -> Asking<'a> {
    scene.index(modules);
    settle();
    let asking = Asking::new(scene, modules);
    asking.agree(WHATIS);
    asking.is_remembered(WHATIS);
    asking
}

#[test]
fn what_an_index_says_is_not_looked_at_one_by_one() {
    for modules in &all() {
        let scene = large();
        let asking = remembered(&scene, modules);
        let kept = asking.why(WHATIS);
        let number = kept.split_whitespace().find_map(|word| word.parse::<u64>().ok());
        assert!(number.is_some_and(|number| number < 200), "{kept}");
        // Without a watcher, all is looked at all the same.
        assert!(looks(&asking) > 600);
        let mut watcher = scene.command(crate::BECALM, modules);
        watcher.args(["modules", "watch"]).env("XDG_STATE_HOME", scene.at("state"));
        let mut watcher = watcher.spawn().unwrap();
        testkit::live::wait_until("the tree is watched", || looks(&asking) < 20);
        asking.is_remembered(WHATIS);
        watcher.kill().unwrap();
        watcher.wait().unwrap();
    }
}

/// Few of the tree's modules.
const LOAD: &[&str] = &["load", "name001", "name002", "name003", "name004", "name005"];

#[test]
fn where_the_tree_is_watched_an_answer_of_few_modules_does_not_look_at_them() {
    with_each(|modules| {
        let scene = large();
        scene.index(modules);
        // An answer that is kept before is not of what is watched.
        let watcher = Watcher::over(&scene, modules);
        settle();
        let asking = Asking::new(&scene, modules);
        asking.agree(LOAD);
        asking.is_remembered(LOAD);
        testkit::live::wait_until("it is not looked at", || looks_for(&asking, LOAD) < 5);
        // A version of another name is no reason to ask anew, although the watcher's index is another.
        scene.file("name200/3", "#%Module\n");
        assert!(looks_for(&asking, LOAD) >= 10);
        asking.is_remembered(LOAD);
        scene.file("name003/2", "#%Module\nsetenv THREE changed\n");
        asking.agree(LOAD);
        settle();
        asking.agree(LOAD);
        asking.is_remembered(LOAD);
        // Nor is it that nobody watches any more.
        drop(watcher);
        assert!(looks_for(&asking, LOAD) >= 10);
        asking.is_remembered(LOAD);
        asking.agree(LOAD);
        scene.file("name004/2", "#%Module\nsetenv FOUR changed\n");
        asking.agree(LOAD);
    });
}

#[test]
fn a_change_anywhere_in_the_tree_is_seen() {
    let modules = &all()[0];
    type Change = fn(&Modulepath);
    let at = |scene: &Modulepath, name: &str| scene.modulepath.join(name);
    let changes: [(&str, Change); 8] = [
        ("edit", |scene| drop(scene.file("name150/2", "#%Module\nmodule-whatis {another}\n"))),
        ("remove", |scene| fs::remove_file(scene.modulepath.join("name299/1")).unwrap()),
        ("add", |scene| drop(scene.file("name299/9", "#%Module\nmodule-whatis {new}\n"))),
        ("a directory", |scene| drop(scene.file("zzz/1", "#%Module\nmodule-whatis {new}\n"))),
        ("an rc file", |scene| {
            drop(scene.file("name010/.modulerc", "#%Module\nmodule-version name010/1 old\n"));
        }),
        ("unreadable", |scene| {
            let path = scene.modulepath.join("name020/1");
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        }),
        ("what a link leads to", |scene| {
            let link = scene.modulepath.join("name000/link");
            fs::remove_file(&link).unwrap();
            symlink("2", link).unwrap();
        }),
        ("no index", |scene| fs::remove_dir_all(scene.at("index")).unwrap()),
    ];
    for (name, change) in changes {
        eprintln!("{name}");
        let scene = large();
        assert!(at(&scene, "name000/link").exists());
        let asking = remembered(&scene, modules);
        change(&scene);
        asking.agree(WHATIS);
    }
}
