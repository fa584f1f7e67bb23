//! Death at every system call: whatever is killed, and whenever, each file is old or new, and
//! undoing makes all of them old.
//!
//! strace kills the real program at the entry of its N-th call of each kind.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::moments::*;
use crate::scene::*;
use remedy::{Options, Status};

/// Every file by name: which content it has, if any.
fn contents(scene: &EditedFiles) -> BTreeMap<PathBuf, Vec<u8>> {
    let names = scene.picture().into_keys().filter(|path| fs::metadata(path).unwrap().is_file());
    names.map(|path| (path.clone(), bytes(path))).collect()
}

/// No file but with its old content or its new: neither half of one, nor none at all.
#[track_caller]
fn each_is_old_or_new(scene: &EditedFiles, moment: &str) {
    let contents = contents(scene);
    for (name, old, new) in [
        ("a", "old a", "new a"),
        ("b", "old b", "new b, longer"),
        ("sub/second", "old b", "new b, longer"),
    ] {
        let content =
            contents.get(&scene.at(name)).unwrap_or_else(|| panic!("{moment}: no {name}"));
        assert!([old.as_bytes(), new.as_bytes()].contains(&content.as_slice()), "{moment}: {name}");
    }
    for (name, only) in [("gone", "g"), ("farm/note", "note\n")] {
        if let Some(content) = contents.get(&scene.at(name)) {
            assert_eq!(content, only.as_bytes(), "{moment}: {name}");
        }
    }
}

/// Undoes whatever is there to undo.
#[track_caller]
fn undo_all(scene: &EditedFiles, moment: &str) {
    let options = Options { threads: 1, ..scene.options() };
    for entry in scene.entries() {
        if entry.status != Status::Undone {
            remedy::undo(&entry.id, &options, remedy::UndoOptions::default())
                .unwrap_or_else(|error| panic!("{moment}: {error}"));
        }
    }
}

fn undo_words(scene: &EditedFiles) -> Vec<String> {
    vec!["--undo".into(), scene.entries()[0].id.clone()]
}

fn applied_scene() -> EditedFiles {
    let scene = scene_with_plan();
    remedy::apply(&remedy::Plan::read(&scene.root().join("plan")).unwrap(), &scene.options())
        .unwrap();
    scene
}

#[track_caller]
fn killed_is_undone_without_a_trace(words: fn(&EditedFiles) -> Vec<String>) {
    let untouched = portrait(&scene_with_plan());
    let moments = at_each("signal=KILL", scene_with_plan, &words, |scene, moment, output| {
        assert!(!output.status.success(), "not {moment}");
        each_is_old_or_new(scene, moment);
        undo_all(scene, moment);
        assert_eq!(portrait(scene), untouched, "{moment}");
        for entry in scene.entries() {
            assert_eq!(entry.status, Status::Undone, "{moment}");
        }
    });
    assert!(moments > 100, "{moments}");
}

#[test]
fn an_application_killed_at_any_system_call_is_undone_without_a_trace() {
    killed_is_undone_without_a_trace(apply_words);
}

#[test]
fn one_of_files_that_were_read_before_is_so_as_well() {
    killed_is_undone_without_a_trace(read_words);
}

#[test]
fn an_undoing_killed_at_any_system_call_is_finished_by_the_next() {
    let untouched = portrait(&scene_with_plan());
    let moments = at_each("signal=KILL", applied_scene, &undo_words, |scene, moment, output| {
        assert!(!output.status.success(), "not {moment}");
        each_is_old_or_new(scene, moment);
        undo_all(scene, moment);
        assert_eq!(portrait(scene), untouched, "{moment}");
    });
    assert!(moments > 100, "{moments}");
}

/// Undone whole, whichever part of it was made: of what was taken, nothing is left.
#[track_caller]
fn is_as_before_it_all(scene: &EditedFiles, moment: &str) {
    undo_all(scene, moment);
    for source in [".image", ".second"] {
        let _ = fs::remove_file(scene.at(source));
    }
    assert_eq!(bytes(scene.at("image")), vec![b'o'; 1024], "{moment}");
    fs::remove_file(scene.at("image")).unwrap();
    assert_eq!(portrait(scene), portrait(&scene_with_plan()), "{moment}");
}

#[test]
fn what_is_added_to_an_application_is_undone_with_it_wherever_it_was_killed() {
    let extend = |scene: &EditedFiles| {
        vec!["--extend".to_owned(), scene.entries()[0].id.clone(), "more".to_owned()]
    };
    let is_old_or_new = |scene: &EditedFiles, moment: &str| {
        let image = bytes(scene.at("image"));
        assert!(image == [b'o'; 1024] || image == b"new image", "{moment}");
    };
    let kills = at_each("signal=KILL", scene_to_extend, &extend, |scene, moment, _| {
        is_old_or_new(scene, moment);
        is_as_before_it_all(scene, moment);
    });
    let fails = at_each("error=EIO", scene_to_extend, &extend, |scene, moment, _| {
        is_old_or_new(scene, moment);
        is_as_before_it_all(scene, moment);
    });
    let undone = at_each("signal=KILL", extended_scene, &undo_words, |scene, moment, _| {
        is_old_or_new(scene, moment);
        is_as_before_it_all(scene, moment);
    });
    assert!(kills.min(fails).min(undone) > 100, "{kills} {fails} {undone}");
}

#[test]
fn after_a_death_the_rest_can_be_applied_by_a_fresh_plan() {
    let moments = |call: &str| (1..=2).map(|at| (call.to_owned(), at)).collect::<Vec<_>>();
    for (call, at) in [moments("renameat"), moments("fsync"), moments("fdatasync")].concat() {
        let scene = EditedFiles::new();
        let files = ["a", "b"].map(|name| scene.file(name, "old"));
        let fresh = || {
            let old = files.iter().filter(|file| bytes(file) == b"old");
            plan(old.map(|file| patch(file, "old", "new")).collect())
        };
        fresh().write(&mut fs::File::create(scene.root().join("plan")).unwrap()).unwrap();
        let inject = format!("inject={call}:signal=KILL:when={at}");
        let died = under_strace(&scene, &["-e", &inject], &["plan"]);
        assert!(!died.status.success(), "{call} {at}");
        if !fresh().steps.is_empty() {
            remedy::apply(&fresh(), &scene.options()).unwrap();
        }
        assert_eq!(files.each_ref().map(bytes), [b"new", b"new"], "{call} {at}");
        assert_eq!(litter(&scene.root()), [""; 0], "{call} {at}");
    }
}
