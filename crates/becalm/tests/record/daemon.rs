//! A command that leaves a daemon behind.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::Command;

use recording::{ExitStatus, Recording};
use testkit::live::wait_until;
use testkit::seen::{end_of, marks};
use testkit::{Scene, run, trap};

const CALLS: &str = "100";

/// A fifo, at which the daemon waits until somebody writes.
fn fifo(scene: &Scene) -> String {
    let path = scene.at("fifo");
    assert_eq!(run(Command::new("mkfifo").arg(&path)).code(), 0);
    path
}

#[test]
fn becalm_returns_with_the_command_and_follows_the_daemon_to_its_end() {
    let scene = Scene::new();
    let fifo = fifo(&scene);
    // `run` returns when becalm has ended and nobody holds its output open any more, which the
    // daemon does not: neither may becalm, though the daemon waits for us.
    let ran = run(&mut scene.record(&[&trap("daemon"), &fifo, CALLS]));
    assert_eq!(ran.code(), 3);
    assert_eq!(ran.out(), "");
    let said = ran.err();
    assert!(said.lines().count() == 1 && said.contains("background"), "{said}");
    assert!(!scene.shows_a_whole_recording(), "the daemon still runs");

    OpenOptions::new().write(true).open(&fifo).unwrap().write_all(b"x").unwrap();
    wait_until("the recording is whole", || scene.shows_a_whole_recording());
    let recording = scene.recording();
    assert_eq!(marks(&recording, "daemon-"), 100);
    let ends: Vec<_> = recording.processes.iter().map(end_of).collect();
    assert_eq!(ends, [ExitStatus::Exited(3), ExitStatus::Exited(0), ExitStatus::Exited(5)]);
}

#[test]
fn a_daemon_whose_follower_is_killed_dies_and_leaves_a_cut_recording() {
    let scene = Scene::new();
    let fifo = fifo(&scene);
    let ran = run(&mut scene.record(&[&trap("daemon"), &fifo, CALLS]));
    assert_eq!(ran.code(), 3);
    // The command, who made the daemon, and the daemon: what it does is written as it comes.
    wait_until("the daemon is recorded", || scene.recording().processes.len() == 3);
    let daemon = scene.recording().processes.last().unwrap().pid;
    let status = fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
    let follower = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap().trim();
    let follower: i32 = follower.parse().unwrap();
    assert!(follower > 0, "{status}");
    // SAFETY: kill has no preconditions; the pid is of the process that traces our daemon.
    assert_eq!(unsafe { libc::kill(follower, libc::SIGKILL) }, 0);
    wait_until("the daemon is gone", || {
        !fs::exists(format!("/proc/{daemon}/exe")).unwrap_or(false)
            || fs::read_link(format!("/proc/{daemon}/exe")).is_err()
    });
    let recording = Recording::open(scene.rec().as_ref()).unwrap();
    assert!(recording.cut.is_some() && !recording.is_whole());
}
