//! A store of libraries, each in a prefix of its own, as Spack lays one out: the model is true
//! whatever the environment, and asks the kernel little.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::real::{Run, build};
use loader::Disk;

const LIBRARIES: usize = 40;

/// Builds the store with tests/store/make, and gives its program.
pub fn make(directory: &Path, option: &[&str], compiler: &str) -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/store/make");
    let mut command = Command::new(script);
    command
        .args(["--libs", &LIBRARIES.to_string()])
        .args(option)
        .arg(directory)
        .env("CC", compiler);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
}

/// Every `lib` directory of the store.
fn directories(program: &Path) -> Vec<String> {
    let store = program.ancestors().nth(3).unwrap();
    let prefixes = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<String> =
        prefixes.map(|prefix| prefix.join("lib").to_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

/// The same store under many environments.
pub fn assert_true_in_all_environments(program: &Path) {
    let directories = directories(program);
    let all = directories.join(":");
    let runs = [
        Run::of(program),
        Run::of(program).with("LD_LIBRARY_PATH", &all),
        Run::of(program).with("LD_LIBRARY_PATH", format!("{all}:")),
        Run::of(program).with("LD_LIBRARY_PATH", format!("/nowhere;{}", directories[3])),
        Run::of(program).with("LD_PRELOAD", "libm.so.6 /absent.so libpart001.so.1"),
        Run::of(program).with("LD_PRELOAD", "libm.so.6").with("LD_LIBRARY_PATH", &all),
    ];
    for run in runs {
        run.assert_true();
    }
}

#[test]
fn a_store_of_rpaths_is_predicted() {
    let directory = tempfile::tempdir().unwrap();
    assert_true_in_all_environments(&make(directory.path(), &[], "gcc"));
}

#[test]
fn a_store_of_runpaths_is_predicted() {
    let directory = tempfile::tempdir().unwrap();
    assert_true_in_all_environments(&make(directory.path(), &["--runpath"], "gcc"));
}

#[test]
fn a_store_without_any_list_is_predicted() {
    let directory = tempfile::tempdir().unwrap();
    assert_true_in_all_environments(&make(directory.path(), &["--no-rpath"], "gcc"));
}

#[test]
fn a_store_for_musl_is_predicted() {
    let directory = tempfile::tempdir().unwrap();
    assert_true_in_all_environments(&make(directory.path(), &[], "musl-gcc"));
    let directory = tempfile::tempdir().unwrap();
    assert_true_in_all_environments(&make(directory.path(), &["--no-rpath"], "musl-gcc"));
}

/// The kernel is asked once a directory and once a file, not once a probe.
#[test]
fn simulating_takes_a_fraction_of_the_calls_of_loading() {
    let directory = tempfile::tempdir().unwrap();
    let program = make(directory.path(), &[], "gcc");
    let probes = Run::of(&program).predict(&Disk::new()).probes.len();
    let log = directory.path().join("calls");
    let test = std::env::current_exe().unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=%file,%desc", "-o"]).arg(&log).arg(test);
    command.args(["--ignored", "--exact", "store::one_simulation"]).env("STORE_PROGRAM", &program);
    build::run(&mut command);
    let log = std::fs::read_to_string(&log).unwrap();
    let calls =
        log.lines().filter(|line| line.contains(directory.path().to_str().unwrap())).count();
    println!("{probes} probes, {calls} calls with a path of the store");
    assert!(calls < probes / 4, "{calls} calls for {probes} probes");
}

#[test]
#[ignore = "for the test above, which traces it"]
fn one_simulation() {
    let program = std::env::var_os("STORE_PROGRAM").unwrap();
    assert!(Run::of(program).predict(&Disk::new()).fatal.is_none());
}
