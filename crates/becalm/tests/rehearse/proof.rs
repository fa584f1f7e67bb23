//! `--rehearse` of `prove`, `check` and `fix`: the gain is shown where it matters.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::rehearsal::{Rehearser, each_rehearser};
use testkit::{Ran, run};

/// A becalm verb with these words, in the rehearser's directory.
fn becalm(rehearser: &Rehearser, words: &[&str]) -> Ran {
    let all = [&[rehearser.program()], words].concat();
    let mut command = rehearser.command(&all);
    let state = rehearser.scene.at("state");
    run(command.current_dir(rehearser.scene.directory()).env("XDG_STATE_HOME", state))
}

#[track_caller]
fn json(ran: &Ran) -> Value {
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}\n{}", ran.out(), ran.err()))
}

/// A program that finds 12 libraries along a list of 12 prefixes; everybody may read it and the
/// rehearser may change it.
fn store(rehearser: &Rehearser, name: &str) -> String {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let out = rehearser.scene.at(name);
    let ran = run(Command::new(make).args(["--libs", "12", &out]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let owner = format!("--reference={}", rehearser.scene.directory().display());
    assert_eq!(run(Command::new("chown").args(["-R", &owner, &out])).code(), 0);
    ran.out().trim_end().to_owned()
}

fn operations(side: &Value) -> Vec<u64> {
    let runs = side["runs"].as_array().unwrap().iter();
    runs.map(|run| run["served"]["rpcs"].as_u64().unwrap()).collect()
}

#[test]
fn a_proof_on_a_rehearsed_filesystem_counts_what_its_server_was_asked_by_cold_nodes() {
    for rehearser in each_rehearser() {
        let app = store(&rehearser, "store");
        // The same libraries, all in one directory, which is looked through first.
        let farm = rehearser.scene.subdirectory("store/farm");
        let script = format!("find store/store -name '*.so.*' -exec ln -s $PWD/{{}} {farm}/ \\;");
        let linked =
            run(Command::new("sh").args(["-c", &script]).current_dir(rehearser.scene.directory()));
        assert_eq!(linked.code(), 0, "{}", linked.err());
        let after = format!("LD_LIBRARY_PATH={farm} {app}");
        // DT_RPATH comes before LD_LIBRARY_PATH: the second is the slower one.
        let ran = becalm(
            &rehearser,
            &[
                "prove",
                "--json",
                "--rehearse",
                "lustre",
                "--runs",
                "6",
                "--before",
                &after,
                "--after",
                &app,
            ],
        );
        let proof = json(&ran);
        assert_eq!(proof["behaviour"]["kind"], "same", "{proof}");
        assert_eq!(proof["warm"], false);
        let place = proof["surroundings"].as_str().unwrap();
        assert!(place.contains("cold node of a rehearsed lustre"), "{place}");
        for side in ["before", "after"] {
            let side = &proof[side];
            let asked = operations(side);
            // Each run starts cold, so each asks the same.
            assert!(asked[0] > 12 && asked.iter().all(|each| *each == asked[0]), "{asked:?}");
            for run in side["runs"].as_array().unwrap() {
                let waited = run["served"]["waited_ns"].as_u64().unwrap();
                assert!(waited >= 200_000 * asked[0], "{run}");
                // One process that asks one question at a time.
                assert!(run["wall_ns"].as_u64().unwrap() >= waited * 9 / 10, "{run}");
            }
        }
    }
}

#[test]
fn check_says_what_a_rehearsed_server_was_asked_and_leaves_the_recorder_out_of_it() {
    for rehearser in each_rehearser() {
        let app = store(&rehearser, "store");
        let directory = rehearser.scene.directory().display().to_string();
        let check = |more: &[&str]| {
            let words = ["check", "--rehearse", "lustre", "--rehearse-path", &directory];
            becalm(&rehearser, &[&words, more, &["--", &app]].concat())
        };
        let ran = check(&["--json", "-o", "kept.becalm"]);
        let object = json(&ran);
        let rehearsed = &object["rehearsed"];
        assert_eq!(rehearsed["directories"], serde_json::json!([directory]));
        let words = [
            "rehearse",
            "--profile",
            "lustre",
            "--json=told.json",
            "--writable",
            &directory,
            "--",
            &app,
        ];
        assert_eq!(becalm(&rehearser, &words).code(), 0);
        let told = std::fs::read(rehearser.scene.at("told.json")).unwrap();
        let told = testkit::answer::parse(told);
        assert_eq!(rehearsed["metadata_ops"], told["rpcs"], "{rehearsed} {told}");
        assert_eq!(ran.code(), 0);
        let text = check(&[]).err();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("On a cold node of a rehearsed lustre"), "{text}");
        assert!(becalm(&rehearser, &["report", "kept.becalm"]).code() == 0);
    }
}

#[test]
fn a_fix_is_measured_on_the_rehearsed_filesystem_and_changes_the_real_one() {
    for rehearser in each_rehearser() {
        let app = store(&rehearser, "store");
        let words = ["fix", "--apply", "--json", "--runs", "2", "--rehearse", "nfs", "--", &app];
        let fix = json(&becalm(&rehearser, &words));
        let (before, after) =
            (operations(&fix["proof"]["before"]), operations(&fix["proof"]["after"]));
        assert!(after[0] < before[0], "{before:?} {after:?}");
        let needed = run(Command::new("patchelf").args(["--print-needed", &app]));
        assert!(needed.out().lines().any(|line| line.starts_with('/')), "{}", needed.out());
    }
}

#[test]
fn a_profile_that_is_not_there_is_named_with_those_that_are() {
    let rehearser = &each_rehearser()[0];
    for words in [
        &["prove", "--rehearse", "beegfs", "--before", "true", "--after", "true"][..],
        &["check", "--rehearse", "beegfs", "--", "true"],
        &["check", "--profile", "beegfs", "--", "true"],
        &["fix", "--rehearse", "beegfs", "--", "true"],
        &["rehearse", "--profile", "beegfs", "/opt", "--", "true"],
        &["rehearse", "--show", "beegfs"],
        &["scale", "--profile", "beegfs", "none.becalm"],
    ] {
        let ran = becalm(rehearser, words);
        assert_eq!((ran.code(), ran.out().as_str()), (2, ""), "{words:?}");
        assert!(ran.err().contains("beegfs") && ran.err().contains("lustre"), "{}", ran.err());
    }
}

#[test]
fn what_a_proof_and_a_check_look_at_before_they_start_a_command_is_not_its_wait() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let program = format!("{tree}/program");
        std::fs::copy("/bin/true", &program).unwrap();
        let at = ["--rehearse", "nfs", "--rehearse-path", &tree, "--json"];
        let sides = ["--runs", "1", "--before", &program, "--after", &program];
        let answer = json(&becalm(&user, &[&["prove"], &at[..], &sides].concat()));
        assert_eq!(operations(&answer["before"]), [2], "a lookup and an open: {answer:#}");
        let answer = json(&becalm(&user, &[&["check"], &at[..], &["--", &program]].concat()));
        assert_eq!(answer["rehearsed"]["metadata_ops"], 2, "{answer:#}");
    }
}
