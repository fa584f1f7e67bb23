//! One server, one queue, however many ask.
#![allow(clippy::unwrap_used)]

#[path = "support/mount.rs"]
#[allow(dead_code)]
mod mount;

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use mount::{fork, wait};
use recording::Nanos;
use rehearse::{MachineQueue, clock};

const SERVICE: Nanos = Nanos(200_000);

/// A queue's name that no other test uses, and its file.
fn named(what: &str) -> (String, PathBuf) {
    let name = format!("test-{}-{what}", std::process::id());
    // SAFETY: reads the process's user.
    let user = unsafe { libc::geteuid() };
    let path = PathBuf::from(format!("/dev/shm/becalm.{user}.{name}.queue"));
    (name, path)
}

#[test]
fn who_comes_first_is_served_at_once_and_the_next_when_that_is_done() {
    let queue = MachineQueue::alone();
    let now = Nanos(1_000_000_000);
    assert_eq!(queue.admit(now, SERVICE), now);
    assert_eq!(queue.admit(now, SERVICE), Nanos(now.0 + 200_000));
    assert_eq!(queue.admit(Nanos(now.0 + 50_000), SERVICE), Nanos(now.0 + 400_000));
    let later = Nanos(now.0 + 10_000_000);
    assert_eq!(queue.admit(later, SERVICE), later);
    // A service of no length waits, and keeps nobody waiting.
    assert_eq!(queue.admit(later, Nanos(0)), Nanos(later.0 + 200_000));
    assert_eq!(queue.admit(later, Nanos(0)), Nanos(later.0 + 200_000));
}

#[test]
fn processes_wait_in_the_same_queue_and_the_last_one_removes_it() {
    let (name, path) = named("processes");
    let queue = MachineQueue::shared(&name).unwrap();
    let now = clock::now();
    let children: Vec<i32> = (0..8)
        .map(|_| {
            fork(|| {
                let queue = MachineQueue::shared(&name).unwrap();
                (0..1000).for_each(|_| {
                    queue.admit(now, SERVICE);
                });
            })
        })
        .collect();
    children.into_iter().for_each(|child| assert_eq!(wait(child), 0));
    assert_eq!(queue.admit(now, SERVICE), Nanos(now.0 + 8000 * 200_000));
    assert!(path.exists());
    drop(queue);
    assert!(!path.exists());
}

#[test]
fn what_a_machine_s_earlier_life_left_is_not_waited_for() {
    let (name, path) = named("old");
    std::fs::write(&path, u64::MAX.to_ne_bytes()).unwrap();
    let queue = MachineQueue::shared(&name).unwrap();
    let now = clock::now();
    assert_eq!(queue.admit(now, SERVICE), now);
    assert_eq!(queue.admit(now, SERVICE), Nanos(now.0 + 200_000));
}

#[test]
fn a_link_or_a_file_of_somebody_else_is_not_taken_for_the_queue() {
    let victim = tempfile::NamedTempFile::new().unwrap();
    let (name, path) = named("link");
    symlink(victim.path(), &path).unwrap();
    let error = MachineQueue::shared(&name).unwrap_err();
    assert!(error.to_string().contains("becalm."), "{error}");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(victim.path().metadata().unwrap().len(), 0);

    let (name, path) = named("other");
    std::fs::write(&path, "").unwrap();
    std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
    let error = MachineQueue::shared(&name).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(error.contains("somebody else") || error.contains("ermission"), "{error}");
    assert!(MachineQueue::shared("../../etc/passwd").is_err());
}

#[test]
fn queues_are_made_and_left_by_many_at_once() {
    let (name, path) = named("coming-and-going");
    let children: Vec<i32> = (0..8)
        .map(|_| fork(|| (0..200).for_each(|_| drop(MachineQueue::shared(&name).unwrap()))))
        .collect();
    children.into_iter().for_each(|child| assert_eq!(wait(child), 0));
    assert!(!path.exists());
}
