//! `last`: what was recorded last can be looked at without a second run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::BECALM;
use testkit::{Live, Ran, Scene, run};

fn becalm(scene: &Scene, words: &[&str]) -> Command {
    let mut command = Command::new(BECALM);
    command.args(words).current_dir(scene.directory()).env("XDG_STATE_HOME", scene.at("state"));
    command
}

#[track_caller]
fn said(scene: &Scene, words: &[&str]) -> Ran {
    let ran = run(&mut becalm(scene, words));
    assert_eq!(ran.code(), 0, "{words:?}: {}", ran.err());
    ran
}

#[test]
fn the_last_recording_is_read_by_its_name_and_a_file_of_that_name_by_its_path() {
    let scene = Scene::new();
    let none = run(&mut becalm(&scene, &["report", "last"]));
    assert_eq!(none.err().matches("becalm check -- COMMAND").count(), 1, "{}", none.err());
    said(&scene, &["check", "--", "ls", "/usr"]);
    said(&scene, &["record", "-o", "./last", "--", "true"]);
    said(&scene, &["check", "--", "stat", "/etc/hostname"]);
    let of = |file| said(&scene, &["report", file]).out();
    assert!(of("last").starts_with("stat "), "{}", of("last"));
    assert!(of("./last").starts_with("true: "), "{}", of("./last"));
    said(&scene, &["scale", "last", "--ranks", "10"]);
    said(&scene, &["diff", "./last", "last"]);
    said(&scene, &["export", "last", "--format", "csv", "-o", "out.csv"]);
    said(&scene, &["check", "-o", "kept", "--", "id"]);
    assert!(of("last").starts_with("id: "), "-o keeps another one: {}", of("last"));
}

/// There is a program of that name, which these verbs could run.
#[test]
fn verbs_that_take_a_command_as_well_read_it_too() {
    let scene = Scene::new();
    said(&scene, &["check", "--", "bash", "-c", "ls; python3 -c 'import json'"]);
    for words in [&["fork", "lines", "last"][..], &["python", "scan", "last"]] {
        let ran = said(&scene, words);
        assert_eq!(ran.code(), 0, "{words:?}: {}", ran.err());
    }
}

#[test]
fn it_is_private_and_of_two_at_once_it_is_one_whole() {
    let scene = Scene::new();
    // Twice as many calls as fit a block of the file.
    let script = "for i in 1 2 3 4 5 6 7 8; do ls -R /usr/lib/*-linux-gnu*; done";
    let words = ["check", "--until", "exit", "--", "sh", "-c", script];
    let all: Vec<Live> = (0..4).map(|_| Live::start(&mut becalm(&scene, &words))).collect();
    all.into_iter().for_each(|one| drop(one.end()));
    let report = said(&scene, &["report", "last", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report.out()).unwrap();
    assert_eq!(report["whole"], true, "{report:#}");
    let state = scene.path("state/becalm");
    let names: Vec<_> = state.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["last.becalm"]);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(state.join("last.becalm")), mode(state)), (0o600, 0o700));
}
