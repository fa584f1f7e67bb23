//! What the tests of `becalm python scan` share: the verb's answer, held against strace's counts.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::BECALM;
use testkit::{Scene, run};

pub const PYTHON: &str = "/usr/bin/python3";

/// `becalm python scan --json -- words…`, without what this environment says to Python.
pub fn scan(options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(BECALM);
    command.args(["python", "scan", "--json"]).args(options).arg("--").args(words);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    command
}

#[track_caller]
pub fn answer(command: &mut Command) -> Value {
    let ran = run(command);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.out()))
}

#[track_caller]
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[track_caller]
pub fn operations(value: &Value) -> u64 {
    number(&value["metadata_ops"])
}

/// The element of a list whose field has this value.
#[track_caller]
pub fn found<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    let element = list.as_array().unwrap().iter().find(|element| element[field] == value);
    element.unwrap_or_else(|| panic!("no {field} {value} in {list:#}"))
}

/// The metadata operations of a command, from strace's log: calls that take a path, and
/// listings.
pub fn counted_by_strace(scene: &Scene, words: &[&str], python_path: &str) -> u64 {
    let log = scene.at("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=%file,getdents64", "-o", &log, "--"]).args(words);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    if !python_path.is_empty() {
        command.env("PYTHONPATH", python_path);
    }
    assert_eq!(run(&mut command).code(), 0);
    let log = fs::read_to_string(log).unwrap();
    let is_counted = |line: &&str| {
        let call = line.split_once(' ').unwrap().1.trim_start();
        let name = call.split('(').next().unwrap();
        name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            && name != "getcwd"
            && !call.contains("AT_EMPTY_PATH")
    };
    log.lines().filter(is_counted).count() as u64
}

/// The operations of all imports, of each import added up, and of each reason: the same.
#[track_caller]
pub fn assert_adds_up(answer: &Value) {
    let sum = |list: &str, counts: &dyn Fn(&Value) -> u64| -> u64 {
        answer[list].as_array().unwrap().iter().map(counts).sum()
    };
    let imports = operations(&answer["imports"]);
    assert_eq!(sum("modules", &|import| operations(&import["own"])), imports);
    assert_eq!(sum("reasons", &operations), imports);
    assert_eq!(sum("packages", &operations), imports);
    let at_the_top = |import: &Value| match import["parent"].is_null() {
        true => operations(&import["cumulative"]),
        false => 0,
    };
    assert_eq!(sum("modules", &at_the_top), imports);
    let reasons = |import: &Value| -> u64 {
        import["reasons"].as_object().unwrap().values().map(number).sum()
    };
    assert_eq!(sum("modules", &reasons), imports);
}

/// Scans a command with and without the hook: the counts of all operations are strace's, and the
/// same. Gives the exact answer.
#[track_caller]
pub fn exact(scene: &Scene, words: &[&str], python_path: &str) -> Value {
    // Whatever bytecode there is to write is written.
    let mut once = Command::new(words[0]);
    once.args(&words[1..]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    let with = |command: &mut Command| {
        if !python_path.is_empty() {
            command.env("PYTHONPATH", python_path);
        }
        command.current_dir(scene.directory());
    };
    with(&mut once);
    assert_eq!(run(&mut once).code(), 0);
    let answer_with = |options: &[&str]| {
        let mut command = scan(options, words);
        with(&mut command);
        answer(&mut command)
    };
    let (exact, by_path) = (answer_with(&[]), answer_with(&["--no-hook"]));
    assert_eq!((&exact["nesting"], &by_path["nesting"]), (&"exact".into(), &"by_path".into()));
    assert_eq!(exact["all"], by_path["all"], "the hook's own operations are taken out");
    assert_eq!(exact["python"], by_path["python"]);
    assert_eq!(operations(&exact["all"]), counted_by_strace(scene, words, python_path));
    assert_adds_up(&exact);
    assert_adds_up(&by_path);
    exact
}

/// Writes a package of so many modules below a directory, which imports them all.
pub fn package(directory: &Path, name: &str, modules: usize) {
    let package = directory.join(name);
    fs::create_dir_all(&package).unwrap();
    let mut init = String::new();
    for number in 0..modules {
        fs::write(package.join(format!("m{number}.py")), "x = 1\n").unwrap();
        init.push_str(&format!("from . import m{number}\n"));
    }
    fs::write(package.join("__init__.py"), init).unwrap();
}

/// The place of a module in the list.
pub fn position(answer: &Value, module: &str) -> u64 {
    let modules = answer["modules"].as_array().unwrap();
    modules.iter().position(|import| import["module"] == module).unwrap() as u64
}
