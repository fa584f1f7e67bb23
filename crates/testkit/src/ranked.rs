//! What tests of many ranks share: the recordings as `becalm report --json` tells them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::live::run;
use super::scene::{Scene, becalm};

/// The JSON of `becalm report` on a file of ranks.
#[track_caller]
pub fn report(file: &str) -> Value {
    let report = run(Command::new(becalm()).args(["report", "--json", file]));
    assert_eq!(report.code(), 0, "{}", report.err());
    serde_json::from_str(&report.out()).unwrap()
}

/// The numbers in a list of a report.
pub fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect()
}

/// The ranks of a report.
pub fn ranks(report: &Value) -> Vec<u64> {
    report["ranks"].as_array().unwrap().iter().map(|row| row["rank"].as_u64().unwrap()).collect()
}

/// The files of a directory whose names end so, by name.
pub fn files(scene: &Scene, end: &str) -> Vec<String> {
    let all = fs::read_dir(scene.directory()).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<_> = all.map(name).filter(|name| name.ends_with(end)).collect();
    names.sort();
    names
}

/// Fails where recorders left something in the node's directory.
#[track_caller]
pub fn assert_nothing_left(directory: &str) {
    let left: Vec<_> = fs::read_dir(directory).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A C program whose ranks add up their numbers.
pub fn hello(scene: &Scene) -> String {
    const PROGRAM: &str = r#"
        #include <mpi.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            int rank, size, sum;
            MPI_Init(&argc, &argv);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Comm_size(MPI_COMM_WORLD, &size);
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            printf("%d of %d: %d\n", rank, size, sum);
            MPI_Finalize();
        }
    "#;
    let (source, program) = (scene.file("hello.c", PROGRAM, 0o644), scene.at("hello"));
    let compiled = run(Command::new("mpicc").args([&source, "-o", &program]));
    assert_eq!(compiled.code(), 0, "{}", compiled.err());
    program
}

/// Shell: kills the recorder that watches this shell, as a launcher would.
pub const KILL_RECORDER: &str = "kill -KILL $(awk '{print $4}' /proc/$PPID/stat); sleep 100";
