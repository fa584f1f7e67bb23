//! One start, one profile, one number of ranks: every verb says the same wait, and counts the same
//! metadata operations.

use std::process::Command;

use serde_json::Value;
use testkit::rehearsal::{Rehearser, each_rehearser};
use testkit::{Ran, Scene, run};

use crate::BECALM;

/// What starts, each from the distribution.
const STARTS: [&[&str]; 10] = [
    &["ls", "/"],
    &["python3", "-Ic", "import json, email, http.client"],
    &["bash", "-c", "for n in 1 2 3; do /bin/true; done"],
    &["emacs", "--version"],
    &["git", "--version"],
    &["perl", "-e", "use POSIX; use File::Find"],
    &["find", "/usr/share/perl5", "-maxdepth", "1", "-name", "x"],
    &["sh", "-c", "cd /usr && ls nothing"],
    &["awk", "BEGIN { print 1 }"],
    &["env", "-i", "python3", "--version"],
];

/// For whom: one rank, and many.
const JOBS: [&[&str]; 2] = [&["--ranks", "1"], &["--ranks", "24576", "--nodes", "128"]];

fn json(ran: &Ran, what: &[&str]) -> Value {
    serde_json::from_slice(&ran.stdout)
        .unwrap_or_else(|_| panic!("{what:?}: {}\n{}", ran.out(), ran.err()))
}

/// What a verb says, as JSON.
fn said(scene: &Scene, words: &[&str]) -> Value {
    let mut becalm = Command::new(BECALM);
    json(&run(becalm.args(words).current_dir(scene.directory())), words)
}

fn scale(scene: &Scene, recording: &str, job: &[&str], profile: &str) -> Value {
    let words = [&["scale", "--json", recording, "--profile", profile], job].concat();
    said(scene, &words)["before"].take()
}

#[test]
fn check_and_scale_say_the_same_wait_and_all_count_alike() {
    let scene = Scene::new();
    for start in STARTS {
        for (job, profile) in JOBS.iter().zip(["nfs", "lustre"]) {
            let check = ["check", "--json", "-o", "rec", "--profile", profile];
            let check = said(&scene, &[&check[..], job, &["--"], start].concat());
            let projected = scale(&scene, "rec", job, profile);
            assert_eq!(check["predicted_wait"], projected["predicted_wait"], "{start:?} {job:?}");
            assert!(check["predicted_wait"]["one_rank"].as_f64().unwrap() > 0.0, "{start:?}");
            let reported = &said(&scene, &["report", "--json", "rec"])["total"];
            let number = |field: &str| projected[field].as_u64().unwrap();
            let counted = Some(number("metadata_ops") + number("elsewhere"));
            assert_eq!(reported["metadata_ops"].as_u64(), counted, "{start:?}");
            assert_eq!(check["totals"]["metadata_ops"].as_u64(), counted, "{start:?}");
        }
    }
}

/// Each verb records its own run, whose computing differs: one rank's wait does not depend on it.
#[test]
fn fix_says_the_wait_that_check_says() {
    let scene = Scene::new();
    for start in STARTS {
        for options in [&["--profile", "nfs"][..], &["--profile", "lustre", "--cold-server"]] {
            let says = |verb: &[&str]| said(&scene, &[verb, options, &["--"], start].concat());
            // Without --data, check bounds what is read.
            let check = says(&["check", "--data", "--json", "-o", "rec"]);
            let fix = says(&["fix", "--json"]);
            let of = |answer: &Value| answer["predicted_wait"]["rpcs"].as_u64().unwrap();
            assert_eq!(of(&check), of(&fix), "{start:?}");
            // Which pages are touched depends on where files are mapped.
            for field in ["bytes_read", "one_rank"] {
                let of = |answer: &Value| answer["predicted_wait"][field].as_f64().unwrap();
                let (check, fix) = (of(&check), of(&fix));
                assert!((check - fix).abs() < 0.03 * check, "{start:?} {field}: {check} {fix}");
            }
            for field in ["profile", "metadata_latency", "ranks", "nodes", "cold_server"] {
                assert_eq!(check["model"][field], fix["model"][field], "{field}");
            }
        }
    }
}

#[test]
fn rehearse_predicts_what_scale_says_of_its_recording() {
    for rehearser in each_rehearser() {
        let scene = &rehearser.scene;
        for start in STARTS {
            let rehearsal = rehearsed(&rehearser, "lustre", "/usr", JOBS[1], start);
            let projected = scale(scene, &scene.at("rehearsed"), JOBS[1], "lustre");
            assert_eq!(rehearsal["predicted_wait"], projected["predicted_wait"], "{start:?}");
        }
    }
}

#[test]
fn prove_predicts_what_scale_says_of_its_recordings() {
    let scene = Scene::new();
    for start in STARTS {
        let command = start.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let words = ["prove", "--json", "--ignore-output", "--runs", "1", "--keep", "kept"];
        let place = ["--rehearse", "lustre", "--rehearse-path", "/usr"];
        let sides = ["--before", &command, "--after", &command];
        let proof = said(&scene, &[&words[..], &place, JOBS[1], &sides].concat());
        for side in ["before", "after"] {
            let recording = format!("kept/{side}.becalm");
            let projected = scale(&scene, &recording, JOBS[1], "lustre");
            let predicted = &proof[side]["predicted_wait"];
            assert_eq!(*predicted, projected["predicted_wait"], "{start:?} {side}");
        }
    }
}

/// `becalm rehearse --record` of a directory: what it answers. The recording is kept.
fn rehearsed(
    rehearser: &Rehearser,
    profile: &str,
    path: &str,
    job: &[&str],
    start: &[&str],
) -> Value {
    let record = format!("--record={}", rehearser.scene.at("rehearsed"));
    let words = ["--profile", profile, "--json", &record];
    let mut becalm = rehearser.becalm(&[&words[..], job, &[path, "--"], start].concat());
    json(&run(&mut becalm), start)
}

/// Waits are added up as the emulated server made them: how busy the machine is does not matter.
/// The tree has no symbolic links, which the model leaves out.
#[test]
fn a_rehearsed_start_waits_within_a_tenth_of_what_is_predicted() {
    let script = "import os, sys\n\
                  for n in range(100): open(f'{sys.argv[1]}/{n}').close()\n\
                  for n in range(200): os.path.exists(f'{sys.argv[1]}/no{n}')";
    for rehearser in each_rehearser() {
        let tree = rehearser.tree("tree");
        (0..100).for_each(|number| std::fs::write(format!("{tree}/{number}"), "x").unwrap());
        let start = ["python3", "-Ic", script, &tree];
        let servers = [&[][..], &["--cold-server"]];
        for (profile, server) in
            ["nfs", "lustre", "gpfs"].map(|it| servers.map(|s| (it, s))).concat()
        {
            let options = [JOBS[0], server].concat();
            let rehearsal = rehearsed(&rehearser, profile, &tree, &options, &start);
            assert_eq!(rehearsal["cold_server"], !server.is_empty());
            let kinds = rehearsal["kinds"].as_array().unwrap().iter();
            let metadata = kinds.filter(|row| row["kind"] != "read" && row["kind"] != "write");
            let waited: u64 = metadata.map(|row| row["waited_ns"].as_u64().unwrap()).sum();
            let measured = waited as f64 / 1e9;
            let predicted = rehearsal["predicted_wait"]["one_rank"].as_f64().unwrap();
            let off = (measured / predicted - 1.0).abs();
            let told = format!("{profile} {server:?}: {measured} s, predicted {predicted} s");
            assert!(off <= 0.1, "{told}");
        }
    }
}
