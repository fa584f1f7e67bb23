//! `becalm check` on real programs: each storm is found and its sources named, what is calm is
//! called calm, and the command is left alone.

mod answer;
mod budget;
mod openmetrics;
mod search_list;
mod storms;

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use crate::BECALM;
use serde_json::Value;
use testkit::terminal::Terminal;
use testkit::{Ran, Scene, run, uncached};

/// `becalm check … -- words…` in a directory, with a plain environment.
fn check(scene: &Scene, options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(BECALM);
    command.arg("check").args(options).arg("--").args(words);
    command.current_dir(scene.directory()).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", scene.directory()).env("LC_ALL", "C");
    command
}

/// The findings of a command, from `--json`.
#[track_caller]
fn findings(command: &mut Command) -> Value {
    let ran = run(command);
    let json = serde_json::from_slice(&ran.stdout);
    json.unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.out(), ran.err()))
}

#[track_caller]
fn found(scene: &Scene, words: &[&str]) -> Value {
    findings(&mut check(scene, &["--json"], words))
}

/// The findings where whatever is repeated is waited for each time.
#[track_caller]
fn found_uncached(scene: &Scene, words: &[&str]) -> Value {
    findings(&mut check(scene, &["--json", "--profile", &uncached(scene)], words))
}

/// The storm of that name.
#[track_caller]
fn storm<'f>(findings: &'f Value, name: &str) -> &'f Value {
    let storms = findings["storms"].as_array().unwrap();
    let storm = storms.iter().find(|storm| storm["storm"] == name);
    storm.unwrap_or_else(|| panic!("no {name} storm in {findings:#}"))
}

#[track_caller]
fn source<'f>(storm: &'f Value, kind: &str) -> &'f Value {
    let sources = storm["sources"].as_array().unwrap();
    let source = sources.iter().find(|source| source["kind"] == kind);
    source.unwrap_or_else(|| panic!("no {kind} in {storm:#}"))
}

#[track_caller]
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The first command of a storm's cures and looks that has this in it.
#[track_caller]
fn step<'f>(findings: &'f Value, storm: &str, part: &str) -> &'f str {
    let of = |list: &str| findings[list].as_array().unwrap().iter();
    let steps = of("cures").chain(of("looks")).filter(|step| step["storm"] == storm);
    let mut commands = steps.filter_map(|step| step["command"].as_str());
    let command = commands.find(|command| command.contains(part));
    command.unwrap_or_else(|| panic!("no step with {part} in {findings:#}"))
}

#[track_caller]
fn assert_calm(findings: &Value) {
    assert_eq!(findings["storms"], serde_json::json!([]), "{findings:#}");
    let waits = findings["predicted_wait"]["one_rank"].as_f64().unwrap();
    let of = |field: &str| findings["totals"][field].as_u64().unwrap();
    let is_calm = waits < 0.1 || waits <= 1.0 && of("enoent") * 4 <= of("metadata_ops");
    assert_eq!(findings["verdict"] == "calm", is_calm, "{findings:#}");
}

/// Python as the distribution built it: a version manager's would add a shell's operations.
const PYTHON: &str = "/usr/bin/python3";

/// The program of a store of 120 libraries, built once for each kind.
fn store(kind: &'static str) -> String {
    static BUILT: OnceLock<Mutex<()>> = OnceLock::new();
    let _one_at_a_time = BUILT.get_or_init(Mutex::default).lock().unwrap();
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{kind}"));
    let mut command = Command::new(make);
    command.arg("--libs=120").arg(out);
    if kind != "rpath" {
        command.arg(format!("--{kind}"));
    }
    let ran = run(&mut command);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran.out().trim_end().to_owned()
}

/// The directory of every library of that store, in a list.
fn library_directories(program: &str) -> Vec<String> {
    let store = Path::new(program).ancestors().nth(3).unwrap();
    let packages = store.read_dir().unwrap().map(|entry| entry.unwrap().path().join("lib"));
    let mut directories: Vec<_> = packages
        .filter(|directory| directory.is_dir())
        .map(|directory| directory.into_os_string().into_string().unwrap())
        .collect();
    directories.sort();
    directories
}

/// The calls of strace's `%file` that failed, from `strace -c`.
fn failed_by_strace(scene: &Scene, words: &[&str]) -> u64 {
    let log = scene.at("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-U", "errors,name", "-e", "trace=%file", "-o", &log]).args(words);
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(scene.directory());
    assert_eq!(run(&mut command).code(), 0);
    let log = std::fs::read_to_string(log).unwrap();
    let total = log.lines().find(|line| line.trim_end().ends_with("total")).unwrap();
    total.split_whitespace().next().unwrap().parse().unwrap()
}

/// A tree of so many directories with a file in each.
fn tree(scene: &Scene, directories: usize) -> String {
    let tree = scene.subdirectory("tree");
    for number in 0..directories {
        scene.subdirectory(&format!("tree/d{number}"));
        scene.file(&format!("tree/d{number}/file"), "", 0o644);
    }
    tree
}
