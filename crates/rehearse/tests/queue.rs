//! One server, one queue, however many ask.
#![allow(clippy::unwrap_used)]

#[path = "support/mount.rs"]
#[allow(dead_code)]
mod mount;

use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

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

/// The names that it may have, in their order.
fn all_names(path: &Path) -> Vec<PathBuf> {
    let numbered = (1..=15).map(|number| path.with_extension(format!("{number}.queue")));
    [path.to_owned()].into_iter().chain(numbered).collect()
}

#[test]
fn a_link_or_a_file_of_somebody_else_is_not_taken_for_the_queue() {
    let victim = tempfile::NamedTempFile::new().unwrap();
    let take = |what: &str, path: &Path| match what {
        "link" => symlink(victim.path(), path).unwrap(),
        "directory" => std::fs::create_dir(path).unwrap(),
        _ => {
            std::fs::write(path, "").unwrap();
            chown(path, Some(1234), None).unwrap();
        }
    };
    let now = clock::now();
    for what in ["link", "directory", "other"] {
        let (name, path) = named(what);
        let names = all_names(&path);
        names[..2].iter().for_each(|path| take(what, path));
        // Whoever asks meanwhile comes to the same one.
        let queues = [0; 2].map(|_| MachineQueue::shared(&name).unwrap());
        for queue in &queues {
            queue.admit(now, SERVICE);
        }
        assert_eq!(queues[0].admit(now, SERVICE), Nanos(now.0 + 400_000), "{what}");
        assert!(names[2].is_file(), "{what}");
        drop(queues);
        assert!(!names[2].exists(), "{what}");
        names[2..].iter().for_each(|path| take(what, path));
        let error = MachineQueue::shared(&name).unwrap_err().to_string();
        for path in &names {
            std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path)).unwrap();
        }
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        let way_out = "; its owner, or root, can remove it";
        assert_eq!(error.ends_with(way_out), what == "other", "{error}");
    }
    assert_eq!(victim.path().metadata().unwrap().len(), 0);
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
