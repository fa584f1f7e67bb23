//! What explaining takes, however a recording was made.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

use std::time::Duration;

use explain::{ExplainOptions, explain};
use testkit::made::{Made, ask};

/// How long this thread has had a processor (proc_pid_schedstat(5)).
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_once(' ').unwrap().0.parse().unwrap())
}

/// How long a chain of so many processes takes, each of them an exec of the one before.
fn chain(length: usize) -> Duration {
    let mut made = Made::new();
    let mut last = made.command("/bin/sh");
    for _ in 0..length {
        last = made.start(Some(last));
        made.exec(last, "/bin/sh", "/bin/sh", &["sh", "-c", "x"]);
        made.call(last, ask("stat", "/etc/passwd"));
    }
    let recording = made.recording();
    let before = processor_time();
    let _ = explain(&recording, &ExplainOptions::default());
    processor_time() - before
}

#[test]
fn a_chain_of_processes_is_explained_in_time_that_grows_as_it_does() {
    let (short, long) = (chain(10_000), chain(100_000));
    let most = short * 40 + Duration::from_millis(500);
    assert!(long < most, "{short:?}, ten times as long {long:?}");
}
