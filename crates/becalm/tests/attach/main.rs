//! `becalm attach`: what it sees of processes that run already, and that they notice nothing of it.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod left_as_it_was;
mod refused;
mod seen;

use std::process::Command;

use serde_json::Value;
use testkit::{Ran, Scene, run};

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");

/// `becalm attach` with these words.
fn attach(scene: &Scene, words: &[&str]) -> Command {
    let mut command = Command::new(BECALM);
    command.current_dir(scene.directory()).env("XDG_STATE_HOME", scene.at("state"));
    command.arg("attach").args(words);
    command
}

/// Attaches to a process for so long, and gives the answer as JSON.
#[track_caller]
fn attached(scene: &Scene, pid: i32, until: &str) -> Value {
    let ran = run(&mut attach(scene, &["--json", "--until", until, &pid.to_string()]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// A field of a process's or thread's status.
fn status(pid: i32, field: &str) -> String {
    let status = proc::ProcessStatus::of(pid).unwrap();
    status.field(field).unwrap_or_default().to_owned()
}

/// Whether nobody traces any thread of a process.
fn is_free(pid: i32) -> bool {
    threads_of(pid).into_iter().all(|tid| !is_watched(tid))
}

/// The process's threads, by the kernel's ids.
fn threads_of(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let ids = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    ids.collect()
}

/// Whether a thread is traced.
fn is_watched(tid: i32) -> bool {
    let tracer = proc::ProcessStatus::of(tid).and_then(|status| status.number("TracerPid"));
    tracer.is_some_and(|tracer| tracer != 0)
}

/// What a refusal says, whose status is 1.
#[track_caller]
fn refusal(ran: &Ran) -> String {
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""), "{}", ran.err());
    ran.err()
}
