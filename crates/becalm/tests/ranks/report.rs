//! The verbs that report on a command, under mpirun: every rank is watched, one reports.

use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::ranked::{files, hello};
use testkit::{Ran, Scene, run};

/// Runs `becalm WORDS…` as so many ranks, in the scene's directory.
fn mpirun(scene: &Scene, ranks: u32, words: &[&str]) -> Ran {
    let mut command = Command::new("mpirun");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.current_dir(scene.directory()).args(["--oversubscribe", "--bind-to", "none", "-n"]);
    run(command.arg(ranks.to_string()).arg(BECALM).args(words))
}

fn becalm(scene: &Scene, words: &[&str]) -> Ran {
    run(Command::new(BECALM).current_dir(scene.directory()).args(words))
}

/// A script whose rank 1 starts more than the others.
fn storm(scene: &Scene) -> String {
    let script = "#!/bin/bash\nfor i in $(seq $((3 + 4 * OMPI_COMM_WORLD_RANK))); do\n\
        dirname /a/b >/dev/null\ndone\necho done\n";
    scene.file("storm.sh", script, 0o755)
}

/// How many processes the script's loop started.
fn of_loop(answer: &Value) -> u64 {
    let line = answer["lines"].as_array().unwrap().iter().find(|line| line["line"] == 3);
    line.unwrap()["processes"].as_u64().unwrap()
}

#[test]
fn lines_are_those_of_the_rank_that_was_asked_for_and_are_told_once() {
    let scene = Scene::new();
    let storm = storm(&scene);
    let ran = mpirun(&scene, 3, &["fork", "lines", "--", &storm]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!(ran.out().matches("done\n").count(), 3, "{}", ran.out());
    assert_eq!(ran.err().matches("processes were started").count(), 1, "{}", ran.err());
    assert!(ran.err().contains("this was rank 0 of 3"), "{}", ran.err());

    let json = scene.at("lines.json");
    let to_file = format!("--json={json}");
    for (rank, processes) in [(0, 3), (2, 11)] {
        let asked = rank.to_string();
        let words = ["fork", "lines", &to_file, "--rank", &asked, "--", &storm];
        let ran = mpirun(&scene, 3, &words);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let answer = testkit::answer::parse(std::fs::read(&json).unwrap());
        assert_eq!((answer["rank"].as_u64(), of_loop(&answer)), (Some(rank), processes));
    }
}

#[test]
fn lines_of_one_rank_are_read_from_a_recording_of_all() {
    let scene = Scene::new();
    let storm = storm(&scene);
    let ran = mpirun(&scene, 3, &["record", "-o", "all.becalm", "--", &storm]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let all = becalm(&scene, &["fork", "lines", "all.becalm"]);
    assert!(all.code() == 1 && all.err().contains("--rank N"), "{}", all.err());
    let none = becalm(&scene, &["fork", "lines", "all.becalm", "--rank", "3"]);
    assert!(none.code() == 1 && none.err().contains("rank 3 is not there"), "{}", none.err());
    for (rank, processes) in [("0", 3), ("1", 7), ("2", 11)] {
        let one = becalm(&scene, &["fork", "lines", "all.becalm", "--rank", rank, "--json"]);
        assert_eq!(one.code(), 0, "{}", one.err());
        let answer: Value = serde_json::from_slice(&one.stdout).unwrap();
        assert_eq!(of_loop(&answer), processes);
        assert_eq!(answer["recording"], "all.becalm");
    }
    let text = becalm(&scene, &["fork", "lines", "all.becalm", "--rank", "2"]);
    assert!(text.out().contains("all.becalm --rank 2 --by line"), "{}", text.out());
}

#[test]
fn an_mpi_program_is_scanned_once_and_its_ranks_find_each_other() {
    let scene = Scene::new();
    let hello = hello(&scene);
    let script = format!("import json, os; os.execv({hello:?}, ['hello'])");
    let command = ["--", "/usr/bin/python3", "-c", &script];
    let scan = mpirun(&scene, 3, &[&["python", "scan"], &command[..]].concat());
    assert_eq!(scan.code(), 0, "{}", scan.err());
    assert_eq!(scan.out().matches(" of 3: 3").count(), 3, "{}", scan.out());
    assert_eq!(scan.err().matches("imports made").count(), 1, "{}", scan.err());
    assert!(scan.err().contains("this was rank 0 of 3"), "{}", scan.err());

    let json =
        mpirun(&scene, 3, &[&["python", "scan", "--json", "--rank", "1"], &command[..]].concat());
    let answer: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(answer["rank"], 1);
    assert_eq!(json.err().matches(" of 3: 3").count(), 3, "{}", json.err());

    let recorded = mpirun(&scene, 3, &[&["record", "-o", "all.becalm"], &command[..]].concat());
    assert_eq!(recorded.code(), 0, "{}", recorded.err());
    let one = becalm(&scene, &["python", "scan", "all.becalm", "--rank", "2", "--json"]);
    let answer: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!((answer["rank"].as_u64(), answer["nesting"].as_str()), (Some(2), Some("by_path")));
}

#[test]
fn one_rank_is_drawn_or_each_in_a_file_of_its_own() {
    let scene = Scene::new();
    let storm = storm(&scene);
    let one = mpirun(&scene, 3, &["lab", "profile", "--starts", "count", "--", &storm]);
    assert_eq!(one.code(), 0, "{}", one.err());
    assert_eq!(files(&scene, ".svg"), ["profile.svg"]);
    assert_eq!(one.err().matches("of CPU time in").count(), 1, "{}", one.err());
    let words =
        ["lab", "profile", "--starts", "count", "-o", "%r.svg", "--folded", "f", "--", &storm];
    let each = mpirun(&scene, 3, &words);
    assert_eq!(each.code(), 0, "{}", each.err());
    assert_eq!(files(&scene, ".svg"), ["0.svg", "1.svg", "2.svg", "profile.svg"]);
    assert_eq!(each.err().matches("of CPU time in").count(), 1, "{}", each.err());
    let folded = std::fs::read_to_string(scene.at("f")).unwrap();
    assert!(folded.contains("dirname (3 starts) 3\n"), "those of rank 0: {folded}");
}

#[test]
fn each_rank_is_rehearsed_and_one_reports() {
    let scene = Scene::new();
    scene.file("data", "x", 0o644);
    let directory = scene.at("");
    let words =
        ["rehearse", "--profile", "local", "--record=kept", &directory, "--", "cat", "data"];
    let ran = mpirun(&scene, 2, &words);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!(ran.out(), "xx");
    assert_eq!(ran.err().matches("this was rank 0 of 2").count(), 1, "{}", ran.err());
    let kept = becalm(&scene, &["report", "kept"]);
    assert_eq!(kept.code(), 0, "one rank's, whole: {}", kept.err());
}

#[test]
fn a_rank_that_is_not_there_is_refused_before_anything_runs() {
    let scene = Scene::new();
    for verb in [&["check"][..], &["fork", "lines"], &["python", "scan"], &["lab", "profile"]] {
        let ran = mpirun(&scene, 2, &[verb, &["--rank", "2", "--", "touch", "ran"]].concat());
        assert_eq!(ran.code(), 125, "{verb:?}: {}", ran.err());
        assert!(ran.err().contains("the ranks of this run are 0 to 1"), "{}", ran.err());
        let alone = becalm(&scene, &[verb, &["--rank", "1", "--", "touch", "ran"]].concat());
        assert_eq!(alone.code(), 125, "{verb:?}: {}", alone.err());
    }
    assert!(files(&scene, "ran").is_empty());
}

#[test]
fn what_is_done_once_for_all_is_not_done_by_every_rank() {
    let scene = Scene::new();
    for words in
        [&["fix", "--apply", "--", "true"][..], &["prove", "--before", "a", "--after", "b"]]
    {
        let ran = mpirun(&scene, 2, words);
        assert_eq!(ran.code(), 2, "{}", ran.err());
        assert!(ran.err().contains("is not for every rank"), "{}", ran.err());
    }
}
