//! What can be done on this machine of what would calm a storm.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

use cure::Machine;
use launch::Stage;
use sandbox::namespace;

/// This machine, this user, this working directory.
pub fn here() -> Machine {
    Machine { takes_builtins, can_change, can_mount_image }
}

fn takes_builtins(script: Option<&Path>) -> bool {
    match script {
        Some(script) => first_line(script).is_some_and(|line| is_for_bash(&line)),
        None => script::builtins::prepare(None).is_ok(),
    }
}

fn first_line(script: &Path) -> Option<String> {
    let mut line = String::new();
    BufReader::new(fs::File::open(script).ok()?).read_line(&mut line).ok()?;
    Some(line)
}

/// `#!/bin/bash`, `#!/usr/bin/env bash`; a bash that is `sh` reads no file of ours.
fn is_for_bash(line: &str) -> bool {
    let Some(line) = line.strip_prefix("#!") else { return false };
    line.split_whitespace().any(|word| word.rsplit('/').next() == Some("bash"))
}

/// Not somebody else's. What runs just now can be changed, too: by a rename.
fn can_change(file: &Path) -> bool {
    let opened = fs::File::options().write(true).open(file);
    opened.map_or_else(|error| error.kind() == ErrorKind::ExecutableFileBusy, |_| true)
}

/// An environment that is one: a directory with anything else in it may be written to by those who
/// run in it, and an image cannot be.
fn can_mount_image(environment: &Path) -> bool {
    let is_environment =
        ["pyvenv.cfg", "conda-meta"].iter().any(|name| environment.join(name).exists());
    let has_room = std::env::current_dir().is_ok_and(|here| {
        let is_clear = !here.starts_with(environment) && !here.join("env.sqsh").exists();
        is_clear && tempfile::tempfile_in(&here).is_ok()
    });
    is_environment && has_room && can_mount()
}

/// Tried on a stage: whoever tries is in other namespaces afterwards.
fn can_mount() -> bool {
    let tried =
        Stage::new().play(|| namespace::own_mounts().is_ok() && namespace::fuse_device().is_ok());
    tried.is_ok_and(|played| played.result)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_that_runs_just_now_can_be_changed_and_one_that_is_not_there_cannot() {
        let directory = tempfile::tempdir().unwrap();
        let sleep = directory.path().join("sleep");
        fs::copy("/bin/sleep", &sleep).unwrap();
        let mut running = Command::new(&sleep).arg("1000").spawn().unwrap();
        assert!(can_change(&sleep));
        assert!(!can_change(&directory.path().join("none")));
        running.kill().unwrap();
        running.wait().unwrap();
    }
}
