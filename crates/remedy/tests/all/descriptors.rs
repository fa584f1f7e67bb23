//! Too few file descriptors, from the first open on or in the midst of it: all is applied or undone, or nothing is, or what
//! is in part says so and is undone later.

use std::process::{Command, Output};

use crate::moments::{extended_scene, portrait, scene_with_plan, write_plan};
use crate::scene::*;

/// The program, with no more descriptors than these.
fn with_few(scene: &EditedFiles, (most, threads): (usize, usize), words: &[&str]) -> Output {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={most}")).arg(apply_program()).args(words);
    command.current_dir(scene.root()).env("XDG_STATE_HOME", scene.state_home());
    command.env("APPLY_THREADS", threads.to_string());
    command.output().expect("prlimit: setup/install-test-tools")
}

/// Files in directories of their own, which are more than are held open, and a plan that patches all.
fn scene_of_many() -> EditedFiles {
    let scene = EditedFiles::new();
    let file = |number: usize| scene.file(format!("{number}/file"), "old");
    let files: Vec<_> = (0..40).map(file).collect();
    let patches = files.iter().map(|file| patch(file, "old", "new, and longer")).collect();
    write_plan(&scene, patches);
    scene
}

/// Whether it was applied, and undone, with few.
fn all_or_nothing(prepare: fn() -> EditedFiles, few: (usize, usize)) -> [bool; 2] {
    let scene = prepare();
    let before = portrait(&scene);
    let applied = with_few(&scene, few, &["plan"]);
    if !applied.status.success() {
        let said = String::from_utf8_lossy(&applied.stderr);
        assert_eq!(portrait(&scene), before, "{few:?}: {said}");
        assert!(scene.entries().is_empty(), "{few:?}: {said}");
        let plan = remedy::Plan::read(&scene.root().join("plan")).unwrap();
        remedy::apply(&plan, &scene.options()).unwrap();
    }
    let is_undone = undone_or_nothing(&scene, few);
    assert_eq!(portrait(&scene), before, "{few:?}");
    [applied.status.success(), is_undone]
}

/// Where several threads have taken the last ones among the renames, what was done cannot be taken back at once. What
/// is in part is told, and undone with more.
fn comes_back_with_more(prepare: fn() -> EditedFiles, few: (usize, usize)) {
    let scene = prepare();
    let before = portrait(&scene);
    let applied = with_few(&scene, few, &["plan"]);
    if let Some(entry) = scene.entries().first() {
        with_few(&scene, few, &["--undo", &entry.id]);
    }
    if scene.entries().first().is_some_and(|entry| entry.status.can_be_undone()) {
        scene.undo(&scene.entries()[0].id).unwrap();
    }
    let said = String::from_utf8_lossy(&applied.stderr);
    assert_eq!(portrait(&scene), before, "{few:?}: {said}");
}

/// Whether it was undone with few, as a whole; else it is with more.
fn undone_or_nothing(scene: &EditedFiles, few: (usize, usize)) -> bool {
    let (after, id) = (portrait(scene), scene.entries().last().unwrap().id.clone());
    let ran = with_few(scene, few, &["--undo", &id]);
    if !ran.status.success() {
        assert_eq!(portrait(scene), after, "{few:?}: {}", String::from_utf8_lossy(&ran.stderr));
        scene.undo(&id).unwrap();
    }
    ran.status.success()
}

#[test]
fn with_few_descriptors_what_is_done_in_part_says_so_and_is_undone_with_more() {
    let mut done = Vec::new();
    for most in 5..45 {
        for prepare in [scene_of_many, scene_with_plan] {
            done.extend(all_or_nothing(prepare, (most, 1)));
            comes_back_with_more(prepare, (most, 16));
        }
        done.push(undone_or_nothing(&extended_scene(), (most, 1)));
    }
    let succeeded = done.iter().filter(|done| **done).count();
    assert!(succeeded > 20 && done.len() - succeeded > 20, "{succeeded} of {}", done.len());
}

/// The program; from one of its opens on, none is done: others have all descriptors of the machine (ENFILE).
#[track_caller]
fn succeeds_without(scene: &EditedFiles, from: usize, words: &[&str]) -> bool {
    let inject = format!("inject=openat,openat2:error=ENFILE:when={from}+");
    let mut command = Command::new("prlimit");
    command.args(["--nofile=24", "strace", "-f", "-qq", "-o", "log", "-e", "trace=openat,openat2"]);
    command.args(["-e", &inject]).arg(apply_program()).args(words).current_dir(scene.root());
    command.env("XDG_STATE_HOME", scene.state_home()).env("APPLY_THREADS", "1");
    let ran = command.output().expect("prlimit, strace: setup/install-test-tools");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(litter(&scene.root()), [""; 0], "{words:?} without {from}: {said}");
    ran.status.success()
}

#[test]
fn where_no_descriptor_is_to_be_had_any_more_no_new_file_stays() {
    let mut failed = [0, 0];
    for from in (1..400).step_by(13) {
        let scene = scene_of_many();
        let before = portrait(&scene);
        if !succeeds_without(&scene, from, &["plan"]) {
            failed[0] += 1;
            scene.entries().iter().for_each(|entry| drop(scene.undo(&entry.id).unwrap()));
            assert_eq!(portrait(&scene), before, "{from}");
        }
        let scene = scene_of_many();
        let plan = remedy::Plan::read(&scene.root().join("plan")).unwrap();
        let id = remedy::apply(&plan, &scene.options()).unwrap().id;
        // What was undone in part, and said so, is not undone.
        if !succeeds_without(&scene, from, &["--undo", &id]) || portrait(&scene) != before {
            failed[1] += 1;
            scene.undo(&id).unwrap();
        }
        assert_eq!(portrait(&scene), before, "{from}");
    }
    assert!(failed.iter().all(|failed| *failed > 5), "{failed:?}");
}
