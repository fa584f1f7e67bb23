//! `becalm lab aslr analyze`: what a person and a program read of logs of many processes.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::{Ran, Scene, run};

fn analyze(scene: &Scene, words: &[&str]) -> Ran {
    let mut becalm = Command::new(BECALM);
    becalm.args(["lab", "aslr", "analyze"]).args(words).env("COLUMNS", "100");
    run(becalm.current_dir(scene.directory()))
}

/// Lines of the published test; so many ranks are slow throughout.
fn published(ranks: usize, slow: usize) -> String {
    let mut text = String::new();
    for rank in 0..ranks {
        let is_slow = slow > 0 && rank % (ranks / slow) == 5;
        let avg = if is_slow { 0.13 } else { 0.1 + (rank % 97) as f64 * 1e-5 };
        writeln!(text, "CT: {rank} {:.6} {:.6} {avg:.6} 0.0001 : n", avg - 1e-4, avg + 1e-4)
            .unwrap();
    }
    text
}

/// A campaign's log whose every field is told.
fn campaign() -> String {
    let mut text = String::from("{\"schema\":\"becalm.aslr.log/1\",\"campaign\":\"c\"}\n");
    for at in 0..1600u64 {
        let (job, rank) = (at / 8, at % 8);
        let arm = ["on", "off"][(job % 2) as usize];
        let is_slow = arm == "on" && rank == 1;
        let avg = if is_slow || at == 1590 { 0.2 } else { 0.1 };
        writeln!(
            text,
            "{{\"arm\":\"{arm}\",\"job\":{job},\"block\":{},\"rank\":{rank},\"node\":\"n1\",\
             \"cpu\":3,\"min\":{avg},\"max\":{avg},\"avg\":{avg},\"stddev\":0,\"layout\":\"l{at}\",\
             \"maps\":{{\"libm.so.6\":\"{:#x}\"}}}}",
            job / 20,
            0x7f00_0000_0000u64 + (u64::from(rank == 1) << 12)
        )
        .unwrap();
    }
    text
}

#[test]
fn the_answer_is_a_headline_ministat_counts_and_what_would_prove_it() {
    let scene = Scene::new();
    scene.file("on.log", published(38_016, 3), 0o644);
    scene.file("off.log", published(38_016, 0), 0o644);
    let ran = analyze(&scene, &["on=on.log", "off=off.log", "--ranks", "24576"]);
    assert_eq!((ran.code(), ran.err().as_str()), (1, ""));
    let text = ran.out();
    let head = text.split("\nx on\n").next().unwrap().replace('\n', " ");
    assert_eq!(
        head,
        "Not proven: slow ranks 3 of 38,016 on against 0 of 38,016 off (over 10 % slower than the \
         median; Fisher, one-sided: p = 0.125)."
    );
    assert!(text.contains("\n    N           Min           Max        Median"), "{text}");
    assert!(text.contains("85.6 % (33.0 to 99.7 %)"), "{text}");
    let one_line = text.replace('\n', " ");
    assert!(one_line.contains("Not proven. 2 more slow ones would do"), "{text}");
    assert!(one_line.contains("85,167 ranks of each arm (47,151 more)"), "{text}");
    assert!(text.lines().count() < 30, "{text}");
    assert!(text.contains("unknown: the log tells of no control loop"), "{text}");
    assert!(!text.contains("layout randomi"), "{text}");
    let next = "Next: becalm lab aslr analyze --strip strip.svg --tail tail.svg on=on.log off=off.log --ranks \
                24576";
    assert!(text.trim_end().ends_with(next), "{text}");
}

#[test]
fn a_guess_by_a_files_name_is_called_one() {
    let scene = Scene::new();
    scene.file("aslr-on.log", published(100, 0), 0o644);
    let ran = analyze(&scene, &["aslr-on.log"]);
    assert_eq!(ran.code(), 0);
    assert!(
        ran.err().contains("(on) is inferred from its name; say it with NAME=FILE"),
        "{}",
        ran.err()
    );
}

#[test]
fn ministat_prints_the_same_of_the_same_files() {
    let scene = Scene::new();
    let numbers = |seed: u32, n: u32| -> String {
        (0..n).map(|at| format!("{}\n", 0.1 + f64::from(at * seed % 101) * 1e-3)).collect()
    };
    scene.file("before.txt", numbers(7, 200), 0o644);
    scene.file("off.txt", numbers(29, 150), 0o644);
    for options in [&["-c", "99"][..], &["-s", "-w", "50"], &["-c", "80", "-s"]] {
        let mut theirs = Command::new("ministat");
        let files = ["before.txt", "off.txt"];
        let theirs = run(theirs.args(options).args(files).current_dir(scene.directory()));
        let ours = analyze(&scene, &[&["--ministat"], options, &files].concat());
        assert_eq!((ours.code(), ours.out()), (0, theirs.out()));
    }
}

#[test]
fn the_json_is_what_its_schema_says() {
    let scene = Scene::new();
    scene.file("campaign.log", campaign(), 0o644);
    scene.file("on.log", published(500, 1), 0o644);
    scene.file("off.log", published(500, 0), 0o644);
    let json = |words: &[&str]| -> Value {
        let ran = analyze(&scene, &[words, &["--json"]].concat());
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.err()))
    };
    let told = json(&["campaign.log"]);
    assert_eq!(told["bits"]["found"][0]["map"], "libm.so.6", "{told:#}");
    assert_eq!((&told["proven"], &told["blocks"]), (&Value::Bool(true), &Value::from(10)));
    let not = json(&["on.log", "off.log"]);
    assert_eq!(not["comparisons"][0]["needed"]["more_slow"], 4, "{not:#}");
}

#[test]
fn plots_are_written_and_never_over_a_log() {
    let scene = Scene::new();
    scene.file("on.log", published(500, 1), 0o644);
    let ran = analyze(&scene, &["on.log", "--strip", "strip.svg", "--tail", "tail.svg"]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(fs::read_to_string(scene.at("strip.svg")).unwrap().contains("rank 5 of on.log"));
    assert!(fs::read_to_string(scene.at("tail.svg")).unwrap().contains("1 of 500 slow"));
    let before = fs::read(scene.at("on.log")).unwrap();
    assert_eq!(analyze(&scene, &["on.log", "--tail", "./on.log"]).code(), 1);
    assert_eq!(fs::read(scene.at("on.log")).unwrap(), before);
}

#[test]
fn what_cannot_be_analyzed_is_one_line_and_no_panic() {
    let scene = Scene::new();
    scene.file("text.log", "nothing\n", 0o644);
    scene.file("two.txt", "1\n2\n", 0o644);
    for (words, said) in [
        (&["missing.log"][..], "becalm: missing.log: No such file or directory (os error 2)\n"),
        (&["text.log"], "becalm: text.log: holds no times: neither"),
        (&["--ministat", "two.txt"], "becalm: each data set must have at least 3 values\n"),
        (&["two.txt", "two.txt"], "becalm: two.txt: is given twice\n"),
    ] {
        let ran = analyze(&scene, words);
        assert!(ran.code() != 0 && ran.err().starts_with(said), "{}", ran.err());
    }
}
