//! `becalm scale`: what a recording would cost many ranks, as text, JSON and CSV.

use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::{Ran, Scene, run};

/// A recording of a program that looks for 300 files in a directory, finds 100 and opens them.
fn recorded(scene: &Scene, name: &str, missing: usize) {
    let tree = scene.at("tree");
    let script = format!(
        "import os, sys\n\
         for n in range(100): open(f'{{sys.argv[1]}}/{{n}}').close()\n\
         for n in range({missing}): os.path.exists(f'{{sys.argv[1]}}/no{{n}}')"
    );
    if std::fs::create_dir(&tree).is_ok() {
        (0..100).for_each(|number| std::fs::write(format!("{tree}/{number}"), "x").unwrap());
    }
    let recording = scene.at(name);
    let mut becalm = Command::new(BECALM);
    becalm.args(["record", "-o", &recording, "--", "python3", "-Ic", &script, &tree]);
    assert_eq!(run(&mut becalm).code(), 0);
}

fn scale(scene: &Scene, words: &[&str]) -> Ran {
    let mut becalm = Command::new(BECALM);
    becalm.arg("scale").args(words).env("COLUMNS", "100").current_dir(scene.directory());
    run(&mut becalm)
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code(), 0, "{}", ran.err());
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[test]
fn the_answer_is_a_headline_a_table_a_plot_and_what_was_taken_for_granted() {
    let scene = Scene::new();
    recorded(&scene, "rec", 200);
    let tree = scene.at("tree");
    // What the recorded program computes is the machine's affair.
    let words =
        ["rec", "--ranks", "24576", "--nodes", "128", "--profile", "lustre", "--compute", "0"];
    let ran = scale(&scene, &[&words[..], &["--below", &tree]].concat());
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
    let text = ran.out();
    // Each rank opens 100 files and looks 200 names up that are not there: 24,576 x 300 x 10 us.
    assert!(
        text.starts_with("24,576 ranks on 128 nodes (lustre): the last python3 waits 73."),
        "{text}"
    );
    assert!(text.contains("the server is saturated from "), "{text}");
    assert!(text.contains("\n 24,576    128   7,385,600"), "{text}");
    assert!(text.contains("\nOn the shared filesystem: "), "{text}");
    assert!(text.contains("100k\n") && text.contains("negative dentries not cached"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100 || line.contains(&tree)), "{text}");
    assert!(text.trim_end().ends_with("Next: becalm report rec --by prefix"), "{text}");
}

#[test]
fn before_and_after_are_shown_side_by_side() {
    let scene = Scene::new();
    recorded(&scene, "rec", 900);
    recorded(&scene, "fixed", 0);
    let tree = scene.at("tree");
    let words = ["rec", "--vs", "fixed", "--ranks", "10000", "--below", &tree, "--compute", "0"];
    let ran = scale(&scene, &[&words[..], &["--profile", "lustre"]].concat());
    let text = ran.out();
    assert!(text.contains("the last python3 waits ") && text.contains(" before, "), "{text}");
    // A thousand operations of each rank, then a hundred.
    assert!(text.contains("10.0x") || text.contains("9.9x"), "{text}");
    assert!(text.contains("o before  + after"), "{text}");
    let csv = scene.at("table.csv");
    assert_eq!(scale(&scene, &[&words[..], &["--csv", &csv]].concat()).code(), 0);
    let table = std::fs::read_to_string(csv).unwrap();
    assert!(table.starts_with("ranks,nodes,rpcs,seconds,predicted_wait,"), "{table}");
    // 1, 2, 5, … 100,000; the job is one of them.
    assert_eq!(table.lines().count(), 1 + 16);
}

#[test]
fn another_program_is_compared_but_not_without_a_word() {
    let scene = Scene::new();
    recorded(&scene, "rec", 10);
    let tree = scene.at("tree");
    let other = scene.at("other");
    let mut becalm = Command::new(BECALM);
    becalm.args(["record", "-o", &other, "--", "ls", &tree]);
    run(&mut becalm);
    let ran = scale(&scene, &["rec", "--vs", "other", "--below", &tree]);
    assert_eq!(ran.code(), 0);
    assert!(ran.err().contains("recording of ls, the other one of python3"), "{}", ran.err());
}

#[test]
fn what_cannot_be_projected_is_said_in_one_line() {
    let scene = Scene::new();
    recorded(&scene, "rec", 10);
    for (words, status, said) in [
        (&["rec", "--below", "/nowhere"][..], 1, "--below /"),
        (&["rec", "--profile", "beegfs"], 2, "there is no profile 'beegfs'"),
        (&["nothing"], 1, "nothing: "),
        (&["rec", "--ranks", "0"], 2, "--ranks"),
        (&["rec", "--nodes", "3", "--ranks-per-node", "3"], 2, "--nodes"),
        (&["rec", "--compute", "soon"], 2, "--compute"),
    ] {
        let ran = scale(&scene, words);
        assert_eq!((ran.code(), ran.out().as_str()), (status, ""), "{words:?}");
        assert!(ran.err().contains(said), "{words:?}: {}", ran.err());
    }
}

#[test]
fn a_recording_that_was_cut_is_projected_with_a_warning() {
    let scene = Scene::new();
    recorded(&scene, "rec", 3_000);
    let bytes = std::fs::read(scene.at("rec")).unwrap();
    std::fs::write(scene.at("cut"), &bytes[..bytes.len() - 40]).unwrap();
    let ran = scale(&scene, &["cut", "--below", "/"]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.err().contains("cut"), "{}", ran.err());
}

/// What a verb says of a recording, as JSON.
fn told(scene: &Scene, verb: &str, words: &[&str]) -> Value {
    let mut becalm = Command::new(BECALM);
    json(&run(becalm.args([verb, "--json"]).args(words).current_dir(scene.directory())))
}

#[test]
fn report_and_scale_count_one_recording_alike() {
    let scene = Scene::new();
    let script = scene.file("script", "#!/bin/sh\n/no/such/program\nexec ls /\n", 0o755);
    let commands: [&[&str]; 4] =
        [&["ls", "/"], &[&script], &["python3", "-Ic", "import json"], &["sh", "-c", "cd /; ls x"]];
    for command in commands {
        let mut becalm = Command::new(BECALM);
        run(becalm.args(["record", "-o", &scene.at("rec"), "--"]).args(command));
        let all = told(&scene, "report", &["rec"])["total"]["metadata_ops"].as_u64();
        let projected = told(&scene, "scale", &["rec", "--below", "/"]);
        let number = |field: &str| projected["before"][field].as_u64().unwrap();
        assert_eq!(all, Some(number("metadata_ops") + number("elsewhere")), "{command:?}");
        assert!(number("metadata_ops") > 10, "{command:?}");
    }
}

#[test]
fn what_an_image_answers_is_not_charged_whoever_looks() {
    let scene = Scene::new();
    recorded(&scene, "rec", 200);
    let (tree, image) = (scene.at("tree"), scene.at("tree.sqsh"));
    let mut build = Command::new(BECALM);
    assert_eq!(run(build.args(["image", "build", "-o", &image, &tree])).code(), 0);
    let list = ["ls", "-l", &tree];
    // To compare it asks for each file that ls looks up.
    let within = ["run", "--image", &image, "--check", "no", "--"];

    // From outside: what becalm run asks before the image is there is asked of the server.
    let outside = scene.at("outside");
    let mut becalm = Command::new(BECALM);
    becalm.args(["record", "-o", &outside, "--", BECALM]).args(within).args(list);
    assert_eq!(run(&mut becalm).code(), 0);
    let compared = told(&scene, "scale", &["rec", "--vs", "outside", "--below", &tree]);
    let rpcs = |side: &str| compared[side]["predicted_wait"]["rpcs"].as_u64().unwrap();
    assert!(rpcs("after") * 10 < rpcs("before"), "{compared:#}");

    // From inside: nothing is.
    let mut becalm = Command::new(BECALM);
    becalm.args(within).args([BECALM, "record", "-o", &scene.at("inside"), "--"]).args(list);
    assert_eq!(run(&mut becalm).code(), 0);
    let inside = scale(&scene, &["inside", "--below", &tree]);
    assert_eq!(inside.code(), 1, "{}", inside.out());
    let mut becalm = Command::new(BECALM);
    becalm.args(["record", "-o", &scene.at("plain"), "--"]).args(list);
    assert_eq!(run(&mut becalm).code(), 0);
    let calls = |rec: &str| {
        told(&scene, "scale", &[rec, "--below", "/"])["before"]["metadata_ops"].as_u64().unwrap()
    };
    // ls -l asks for each of the hundred files.
    assert!(calls("plain") >= calls("inside") + 100, "{} {}", calls("plain"), calls("inside"));
    let text = scale(&scene, &["inside", "--below", "/"]).out();
    assert!(text.replace('\n', " ").contains("Images were mounted at"), "{text}");
}

#[test]
fn a_warm_node_has_the_data_of_the_start_before() {
    let scene = Scene::new();
    let big = scene.file("tree", vec![b'x'; 3 << 20], 0o644);
    let mut becalm = Command::new(BECALM);
    run(becalm.args(["record", "-o", &scene.at("rec"), "--", "cat", &big]));
    let words = ["rec", "--below", &big, "--profile", "nfs"];
    let bytes = |words: &[&str]| {
        told(&scene, "scale", words)["before"]["predicted_wait"]["bytes_read"].as_u64()
    };
    assert_eq!(bytes(&words), Some(3 << 20));
    assert_eq!(bytes(&[&words[..], &["--warm"]].concat()), Some(0));
    // 3 MiB at 1 GB/s are 3 ms.
    let seconds = |words: &[&str]| {
        let told = told(&scene, "scale", &[words, &["--compute", "0", "--ranks", "1"]].concat());
        told["before"]["job"]["seconds"].as_f64().unwrap()
    };
    assert!(seconds(&words) > 0.003);
    assert!(seconds(&[&words[..], &["--warm"]].concat()) < 0.003);
}

#[test]
fn the_json_is_what_its_schema_says() {
    let scene = Scene::new();
    recorded(&scene, "rec", 200);
    recorded(&scene, "fixed", 0);
    let tree = scene.at("tree");
    let words = ["rec", "--json", "--ranks", "777", "--nodes", "7", "--below", &tree];
    json(&scale(&scene, &[&words[..], &["--profile", "local"]].concat()));
    let both = json(&scale(&scene, &[&words[..], &["--vs", "fixed"]].concat()));
    assert_eq!(both["after"]["rpcs"]["opens"], 100);
}
