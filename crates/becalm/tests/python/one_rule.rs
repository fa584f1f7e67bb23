//! One recording of imports is counted alike by every verb, and searched over the `sys.path` that
//! Python itself had.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::{Scene, run};

use crate::BECALM;
use crate::scan_scene::{PYTHON, answer, found, number, operations};

const IMPORTS: &str = "import asyncio, json, http.client";

/// `becalm words…` in a directory, with the environment that `scan` gives.
fn becalm(directory: &str, words: &[&str]) -> Command {
    let mut command = Command::new(BECALM);
    command.args(words).current_dir(directory).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    command
}

/// `becalm check --json -o rec` of a command.
fn checked(directory: &str, python_path: &str, words: &[&str]) -> Value {
    let check = ["check", "--until", "exit", "--json", "-o", "rec", "--"];
    let mut check = becalm(directory, &[&check[..], words].concat());
    if !python_path.is_empty() {
        check.env("PYTHONPATH", python_path);
    }
    let ran = run(&mut check);
    let text = ran.out();
    let json = text.find('{').map_or("", |start| &text[start..]);
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}\n{}", ran.err()))
}

fn python_storm(findings: &Value) -> &Value {
    found(&findings["storms"], "storm", "python")
}

/// What `sys.path` a command printed first; the working directory for `""`.
fn sys_path(directory: &str, python_path: &str, words: &[&str]) -> Vec<String> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(directory).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    if !python_path.is_empty() {
        command.env("PYTHONPATH", python_path);
    }
    let ran = run(&mut command);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let entry = |line: &str| if line.is_empty() { directory.to_owned() } else { line.to_owned() };
    ran.out().lines().map(entry).collect()
}

/// A project of 30 packages that `run.py` imports; each program says its `sys.path`, too.
fn project(scene: &Scene) -> String {
    let project = fs::canonicalize(scene.subdirectory("proj")).unwrap();
    for number in 0..30 {
        let package = project.join(format!("pkg/m{number}"));
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("__init__.py"), "from . import a\n").unwrap();
        fs::write(package.join("a.py"), "x = 1\n").unwrap();
    }
    fs::write(project.join("pkg/__init__.py"), "").unwrap();
    fs::write(project.join("run.py"), PROGRAM).unwrap();
    project.to_str().unwrap().to_owned()
}

const PROGRAM: &str = "import sys\n\
                       for n in range(30): __import__(f'pkg.m{n}')\n\
                       print('\\n'.join(sys.path))\n";

#[test]
fn the_directory_that_python_itself_puts_first_is_named_where_most_is_in_it() {
    let scene = Scene::new();
    let project = project(&scene);
    let venv = format!("{}/bin/python3", testkit::installed::venv().display());
    let elsewhere = scene.subdirectory("elsewhere");
    let script = format!("{project}/run.py");
    for (directory, words) in [
        (&elsewhere, &[PYTHON, &script][..]),
        (&elsewhere, &[PYTHON, "-u", "-X", "utf8", "../proj/run.py"]),
        (&project, &[PYTHON, "-c", PROGRAM]),
        (&project, &[PYTHON, "-m", "run"]),
        (&project, &[&venv, "run.py"]),
    ] {
        // Bytecode that is there is the same for all.
        let own = sys_path(directory, "", words);
        let findings = checked(directory, "", words);
        let storm = python_storm(&findings);
        let first = found(&storm["sources"], "kind", "sys_path_entry");
        assert_eq!(first["directory"], project.as_str(), "{words:?}: {storm:#}");
        let entries = format!(" {} directories of sys.path", own.len());
        assert!(storm["title"].as_str().unwrap().ends_with(&entries), "{storm:#}\n{own:?}");
    }
}

#[test]
fn the_entries_of_sys_path_are_those_that_python_had() {
    let scene = Scene::new();
    let project = project(&scene);
    let many: Vec<_> = (0..30).map(|number| scene.at(&format!("p{number}"))).collect();
    many.iter().step_by(2).for_each(|directory| fs::create_dir(Path::new(directory)).unwrap());
    let program = format!("{IMPORTS}, sys\nprint('\\n'.join(sys.path))");
    let inserted = format!("import sys; sys.path.insert(0, {project:?}); import pkg.m1\n{program}");
    for (python_path, words) in [
        ("", &[PYTHON, "-c", &program][..]),
        ("", &[PYTHON, "-I", "-c", &program]),
        ("", &[PYTHON, "-c", &inserted]),
        (&many.join(":"), &[PYTHON, "-c", &program]),
        (&many.join(":"), &[PYTHON, "-I", "-c", &program]),
    ] {
        let mut own = sys_path(&project, python_path, words);
        checked(&project, python_path, words);
        let scan = answer(&mut becalm(&project, &["python", "scan", "--json", "rec"]));
        let path = |entry: &Value| entry["path"].as_str().unwrap().to_owned();
        let mut entries: Vec<_> = scan["sys_path"].as_array().unwrap().iter().map(path).collect();
        own.sort();
        own.dedup();
        entries.sort();
        assert_eq!(entries, own, "{words:?}");
    }
}

#[test]
fn check_report_and_scan_count_the_imports_of_one_recording_alike() {
    let scene = Scene::new();
    let project = project(&scene);
    let script = format!("{project}/run.py");
    for words in [&[PYTHON, "-c", IMPORTS][..], &[PYTHON, &script], &[PYTHON, "-Ic", IMPORTS]] {
        let findings = checked(&project, "", words);
        let report = answer(&mut becalm(&project, &["report", "rec", "--json", "--by", "cause"]));
        let modules = answer(&mut becalm(&project, &["report", "rec", "--json", "--by", "module"]));
        let scan = answer(&mut becalm(&project, &["python", "scan", "--json", "rec"]));
        let row = found(&report["rows"], "key", "python import");
        let storm = python_storm(&findings);
        for field in ["metadata_ops", "enoent"] {
            assert_eq!(number(&storm[field]), number(&row[field]), "check and report: {field}");
            assert_eq!(number(&scan["imports"][field]), number(&row[field]), "scan: {field}");
            assert_eq!(number(&modules["total"][field]), number(&row[field]), "modules: {field}");
        }
    }
}

/// What is observed has beside it what the loader looks for, for extension modules, and what modules
/// ask by their own code.
#[test]
fn what_is_observed_differs_by_the_loaders_calls_and_the_modules_own_only() {
    let scene = Scene::new();
    let directory = scene.subdirectory("cwd");
    let words = ["--", PYTHON, "-c", IMPORTS];
    let scanned = |options: &[&str]| {
        answer(&mut becalm(&directory, &[&["python", "scan", "--json"], options, &words].concat()))
    };
    let (observed, inferred) = (scanned(&[]), scanned(&["--no-hook"]));
    let of = |scan: &Value, reasons: &[&str]| -> u64 {
        let rows = scan["reasons"].as_array().unwrap().iter();
        rows.filter(|row| reasons.contains(&row["reason"].as_str().unwrap())).map(operations).sum()
    };
    let both = ["source", "directory", "bytecode", "suffix", "listing"];
    assert_eq!(of(&observed, &both), of(&inferred, &both), "{observed:#}{inferred:#}");
    assert!(operations(&observed["imports"]) >= operations(&inferred["imports"]));
}
