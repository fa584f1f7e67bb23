//! `becalm elf bind` and `undo` that are asked to end (Ctrl-C) in the midst of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::bound::Site;
use testkit::{Ran, run};

use crate::BECALM;

/// The content of all files of a store.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => all.extend(contents(&entry.path())),
            kind if kind.is_file() => {
                drop(all.insert(entry.path(), fs::read(entry.path()).unwrap()))
            }
            _ => {}
        }
    }
    all
}

fn becalm(site: &Site, words: &[&str]) -> Ran {
    run(Command::new(BECALM).args(words).env("XDG_STATE_HOME", site.scene.at("state")))
}

/// becalm gets a signal as it makes such a call for the so-manieth time.
fn asked_at(site: &Site, (call, when, signal): (&str, usize, &str), words: &[&str]) -> Ran {
    let inject = format!("inject={call}:signal={signal}:when={when}");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
    run(strace.arg(BECALM).args(words).env("XDG_STATE_HOME", site.scene.at("state")))
}

#[test]
fn before_files_are_renamed_all_is_as_it_was_and_afterwards_all_is_done_and_said() {
    let site = Site::new();
    site.store(60, &[]);
    let (tree, words) = (site.tree(), ["elf", "bind", &*site.tree()]);
    let before = contents(Path::new(&tree));

    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let ended = asked_at(&site, ("pwrite64", 9, signal), &words);
        assert_eq!(ended.status.signal(), Some(number), "{}", ended.err());
        assert_eq!(ended.err(), "becalm: asked to end; every file is as it was\n");
        assert_eq!(ended.out(), "");
        assert!(contents(Path::new(&tree)) == before, "{signal}: something has changed");
        assert!(!becalm(&site, &["undo", "--list"]).out().contains("elf bind"), "{signal}");
    }

    let ended = asked_at(&site, ("renameat", 9, "INT"), &words);
    assert_eq!(ended.status.signal(), Some(2), "{}", ended.err());
    assert!(ended.out().starts_with("Bound 61 files"), "{} {}", ended.out(), ended.err());
    assert!(
        ended.err().starts_with("becalm: asked to end once files were renamed: all is bound; ")
    );
    let bound = contents(Path::new(&tree));
    assert_eq!(bound.len(), before.len());
    assert!(bound.iter().filter(|(path, new)| before[*path] != **new).count() == 61);

    let ended = asked_at(&site, ("pwrite64", 9, "INT"), &["undo"]);
    assert_eq!(ended.status.signal(), Some(2), "{}", ended.err());
    assert!(
        ended.err().contains("becalm: asked to end; every file is as it was\n"),
        "{}",
        ended.err()
    );
    assert!(contents(Path::new(&tree)) == bound);
    let ended = asked_at(&site, ("renameat", 9, "INT"), &["undo"]);
    assert_eq!(ended.status.signal(), Some(2), "{}", ended.err());
    assert!(ended.out().contains("61 files"), "{} {}", ended.out(), ended.err());
    assert!(contents(Path::new(&tree)) == before);
}

/// At each write, be it of the journal, of a list of what is bound, or of the answer.
#[test]
fn nothing_is_bound_without_a_word_and_what_is_asked_for_is_whole() {
    let site = Site::new();
    site.store(40, &[]);
    let (tree, list) = (site.tree(), site.scene.at("list"));
    let words = ["elf", "bind", "--manifest", &list, &tree];
    let before = contents(Path::new(&tree));
    let (mut unchanged, mut changed) = (0, 0);
    for when in 1.. {
        let ran = asked_at(&site, ("write", when, "TERM"), &words);
        if ran.status.success() {
            break;
        }
        assert_eq!(ran.status.signal(), Some(15), "{when}: {}", ran.err());
        if contents(Path::new(&tree)) == before {
            unchanged += 1;
            assert!(!Path::new(&list).exists(), "{when}");
            continue;
        }
        changed += 1;
        assert!(ran.err().contains("asked to end once files were renamed: all is bound"), "{when}");
        assert!(ran.out().starts_with("Bound 41 files"), "{when}: {}", ran.out());
        assert!(fs::read_to_string(&list).unwrap().matches("/lib").count() > 40, "{when}");
        fs::remove_file(&list).unwrap();
        assert_eq!(becalm(&site, &["undo"]).code(), 0, "{when}");
        assert!(contents(Path::new(&tree)) == before, "{when}");
    }
    assert!(unchanged > 0 && changed > 1, "{unchanged} {changed}");
    let names =
        fs::read_dir(site.scene.directory()).unwrap().map(|entry| entry.unwrap().file_name());
    let beside: Vec<_> =
        names.filter(|name| name.to_string_lossy().starts_with(".becalm-")).collect();
    assert!(beside.is_empty(), "{beside:?}");
}

/// Under nohup(1) a terminal that closes ends nothing.
#[test]
fn a_signal_that_is_ignored_asks_for_nothing() {
    let site = Site::new();
    site.store(60, &[]);
    let script = "trap '' HUP; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args([
        "-c",
        script,
        "sh",
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=pwrite64",
    ]);
    command.args(["-e", "inject=pwrite64:signal=HUP:when=9", BECALM, "elf", "bind", &site.tree()]);
    let ran = run(command.env("XDG_STATE_HOME", site.scene.at("state")));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.out().starts_with("Bound 61 files"), "{}", ran.out());
}
