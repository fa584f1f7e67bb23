//! What is seen of processes that run already.

use std::process::Command;

use recording::{Recording, StartCall};
use serde_json::Value;
use testkit::live::wait_until;
use testkit::seen::marks;
use testkit::{Live, Scene, run, trap};

use crate::{BECALM, attach, attached, is_watched, threads_of};

const TARGETS: usize = 36;

/// A Makefile of some dozen targets, each of which starts a few programs and reads a file.
fn makefile(scene: &Scene) {
    scene.file("source", "text\n", 0o644);
    let mut text = "all:".to_owned();
    (0..TARGETS).for_each(|at| text += &format!(" made{at}"));
    for at in 0..TARGETS {
        text +=
            &format!("\nmade{at}: source\n\tsleep 0.1; cat source > made{at}; test -f made{at}");
    }
    scene.file("Makefile", text + "\n", 0o644);
}

#[test]
fn a_build_that_runs_is_seen_for_a_while_and_ends_as_it_would() {
    let scene = Scene::new();
    makefile(&scene);
    let mut make = Command::new("make");
    let make = Live::start(make.arg("-j2").current_dir(scene.directory()));
    let pid = make.pid();
    wait_until("it builds", || std::fs::exists(scene.at("made1")).unwrap());
    let answer = run(&mut attach(
        &scene,
        &["-o", "build.becalm", "--json", "--until", "0.7", &pid.to_string()],
    ));
    assert_eq!(answer.code(), 0, "{}", answer.err());
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(answer["joined"]["pids"], Value::from(vec![pid]));
    assert!(answer["joined"]["age"].as_u64().unwrap() > 50_000_000, "{answer}");
    assert!(answer["watched_ns"].as_u64().unwrap() >= 700_000_000);
    let warning = &answer["check"]["warnings"][0];
    let said = warning["text"].as_str().unwrap();
    assert!(
        warning["kind"] == "joined" && said.contains("from ") && said.contains("left to"),
        "{said}"
    );
    let ran = make.end();
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!((0..TARGETS).all(|at| std::fs::exists(scene.at(&format!("made{at}"))).unwrap()));

    let recording = Recording::open(scene.at("build.becalm").as_ref()).unwrap();
    let first = &recording.processes[0];
    assert_eq!((first.how, first.pid), (StartCall::Joined, pid as u32));
    assert_eq!(recording.path(first.execs[0].image), b"/usr/bin/make");
    assert_eq!(first.execs[0].argv, ["make", "-j2"]);
    let born = recording.processes.iter().filter(|it| it.how != StartCall::Joined).count();
    assert!(born > 6, "{born} were started while it was watched");
    // What its shells did was seen: relative names are below the directory that make is in.
    let source = scene.at("source");
    let asked = |event: &recording::Event| {
        event.path.is_some_and(|path| recording.path(path) == source.as_bytes())
    };
    assert!(recording.events.iter().any(asked));
}

#[test]
fn every_thread_is_watched_and_what_it_does_after_is_not() {
    let scene = Scene::new();
    let mut waits = Live::start(&mut Command::new(trap("waits")));
    waits.wait_for("waiting");
    let pid = waits.pid().to_string();
    let rec = scene.at("rec");
    let watching = Live::start(&mut attach(&scene, &["-o", &rec, &pid]));
    wait_until("it is watched", || threads_of(waits.pid()).into_iter().all(is_watched));
    let ran = waits.end();
    assert_eq!((ran.code(), ran.out().as_str()), (0, "done\n"), "{}", ran.err());
    let ran = watching.end();
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(ran.out().contains("to its end, from "), "{}", ran.out());
    let recording = Recording::open(rec.as_ref()).unwrap();
    assert_eq!((recording.processes.len(), recording.processes[0].threads), (1, 9));
    assert_eq!(marks(&recording, "woken"), 1);
}

#[test]
fn fork_lines_names_the_lines_of_a_script_that_runs() {
    let scene = Scene::new();
    let script = scene.file(
        "loop.sh",
        "read -t 0.5\nfor i in 1 2 3; do\n  dirname /a/b\ndone\nsleep 1\n",
        0o644,
    );
    let shell = Live::start(Command::new("bash").arg(&script));
    let mut lines = Command::new(BECALM);
    lines.args(["fork", "lines", "--json", "--attach", &shell.pid().to_string()]);
    let ran = run(&mut lines);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let of = |line: u64| {
        let rows = answer["lines"].as_array().unwrap();
        rows.iter().find(|row| row["line"] == line).cloned().unwrap_or_else(|| panic!("{answer}"))
    };
    assert!(of(3)["file"].as_str().unwrap().ends_with("loop.sh"), "{answer}");
    assert_eq!(shell.end().code(), 0);
}

#[test]
fn what_ends_a_start_ends_the_watching_too() {
    let scene = Scene::new();
    let shell =
        Live::start(Command::new("bash").args(["-c", "sleep 0.5; cat /etc/hostname; sleep 20"]));
    let answer = attached(&scene, shell.pid(), "exec:cat");
    assert_eq!(answer["end"], "exec", "{answer}");
    // SAFETY: kill has no preconditions; the process is the test's.
    unsafe { libc::kill(shell.pid(), libc::SIGKILL) };
}
