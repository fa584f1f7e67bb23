//! Programs that run while they are patched. Alone in its process: what one thread has open to
//! write cannot be executed, and another thread's child has it open, too, for a moment.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

#[path = "all/scene/mod.rs"]
mod scene;

use std::fs;
use std::process::{Command, Stdio};

use scene::*;

#[test]
fn a_program_that_runs_is_patched_and_keeps_running() {
    let scene = EditedFiles::new();
    let program = scene.at("sleep");
    fs::copy("/bin/sleep", &program).unwrap();
    let mut running = Command::new(&program).arg("60").stdout(Stdio::null()).spawn().unwrap();
    let end = bytes(&program).len() as u64;
    let edits = vec![remedy::Edit { offset: end, old: vec![], new: b"more".to_vec() }];
    let seen = remedy::Seen::of(&program).unwrap();
    let step =
        remedy::Step::Patch { path: program.clone(), also: vec![], seen, edits: edits.into() };
    let applied = scene.apply(vec![step]).unwrap();
    assert!(running.try_wait().unwrap().is_none());
    run(&[program.to_str().unwrap(), "0"]);
    scene.undo(&applied.id).unwrap();
    assert!(running.try_wait().unwrap().is_none());
    assert!(bytes(&program) == bytes("/bin/sleep"));
    running.kill().unwrap();
    running.wait().unwrap();
}
