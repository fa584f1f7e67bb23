//! A program cannot tell that the marker hook ran: whatever it looks at is as it is without.

#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Output};

use python::Hook;
use tempfile::TempDir;

const PYTHON: &str = "/usr/bin/python3";

/// Runs a program without and with the hook.
#[track_caller]
fn both(python_path: Option<&str>, program: &str) -> [Output; 2] {
    let run = |list: Option<&OsStr>| {
        let mut command = Command::new(PYTHON);
        command.args(["-c", program]).env_remove("PYTHONPATH");
        if let Some(list) = list {
            command.env("PYTHONPATH", list);
        }
        command.output().unwrap()
    };
    let given = python_path.map(OsStr::new);
    let hook = Hook::new(given).unwrap();
    [run(given), run(Some(&hook.python_path()))]
}

#[track_caller]
fn assert_same(python_path: Option<&str>, program: &str) -> Output {
    let [without, with] = both(python_path, program);
    assert_eq!(with, without, "PYTHONPATH={python_path:?}: {program}");
    with
}

#[test]
fn sys_path_environment_and_modules_are_as_without_the_hook() {
    let look = "import os, sys
print(sys.path, sorted(sys.path_importer_cache), sorted(sys.modules), sorted(os.environ.items()))
os.system('env | grep -v ^_= | sort')";
    for python_path in [None, Some(""), Some("/nonexistent"), Some("/a::/b")] {
        let said = assert_same(python_path, look);
        assert!(said.status.success(), "{said:?}");
    }
}

#[test]
fn an_import_that_fails_says_the_same() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("broken.py"), "def f(:\n").unwrap();
    fs::write(directory.path().join("raises.py"), "import json\n1/0\n").unwrap();
    let path = directory.path().to_str().unwrap();
    for program in ["import no_such_module", "import broken", "import raises", "import json.none"] {
        let said = assert_same(Some(path), program);
        assert!(String::from_utf8_lossy(&said.stderr).contains("Traceback"), "{said:?}");
        assert_eq!(said.status.code(), Some(1));
    }
    assert_same(Some(path), "import importlib; importlib.import_module('raises')");
    assert_same(None, "import importlib; importlib.import_module('a\\0b')");
    assert_same(None, "import importlib; importlib.import_module('\\udcff\\ud800')");
}

#[test]
fn a_warning_of_an_import_names_the_same_line() {
    let directory = TempDir::new().unwrap();
    let module = "import warnings\nwarnings.warn('look', stacklevel=2)\n";
    fs::write(directory.path().join("warns.py"), module).unwrap();
    let said = assert_same(directory.path().to_str(), "import warns");
    assert!(String::from_utf8_lossy(&said.stderr).contains("<string>:1: UserWarning: look"));
}

#[test]
fn the_commands_own_sitecustomize_runs_and_its_errors_are_its_own() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().to_str().unwrap();
    let file = directory.path().join("sitecustomize.py");
    let show =
        "import sys; print(sys.modules['sitecustomize'].__file__, sys.modules['sitecustomize'].x)";
    fs::write(&file, "import sys\nprint('mine', __name__, __file__, sys.path)\nx = 3\n").unwrap();
    let said = assert_same(Some(path), show);
    assert!(String::from_utf8_lossy(&said.stdout).contains("mine sitecustomize"), "{said:?}");
    for broken in ["1/0\n", "import no_such_module\n"] {
        fs::write(&file, broken).unwrap();
        assert_same(Some(path), "print('on')");
    }
    // Here the interpreter ends with a traceback, which has the hook's line in it.
    fs::write(&file, "raise SystemExit(3)\n").unwrap();
    let [without, with] = both(Some(path), "print('on')");
    assert_eq!((with.status, with.stdout), (without.status, without.stdout));
}

#[test]
fn pythons_that_the_program_starts_are_left_alone() {
    let look = "import subprocess, sys
subprocess.run([sys.executable, '-c', 'import sys; print(sys.path)'], check=True)";
    assert_same(None, look);
    assert_same(Some("/a"), look);
}

#[test]
fn threads_import_as_they_do_without() {
    assert_same(
        None,
        "import threading, sys
def work(names):
    for name in names: __import__(name)
threads = [threading.Thread(target=work, args=(['json', 'email.message', 'decimal', 'csv'],)) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(sys.modules))",
    );
}
