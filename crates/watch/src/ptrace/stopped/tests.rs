use std::cell::Cell;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::ptrace::{OPTIONS, PtraceStop, StopChange, Waited, interrupt, seize, wait};

/// A child that this thread traces and that sleeps until it is killed, at the test's end at the
/// latest.
struct Sleeper {
    child: Child,
    has_ended: Cell<bool>,
}

impl Sleeper {
    fn seized() -> Sleeper {
        let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let sleeper = Sleeper { child, has_ended: Cell::new(false) };
        seize(sleeper.tid(), OPTIONS).unwrap();
        sleeper
    }

    fn tid(&self) -> i32 {
        self.child.id() as i32
    }

    fn stopped(&self) -> StoppedThread {
        loop {
            interrupt(self.tid()).unwrap();
            match self.next() {
                StopChange::Stopped(thread, PtraceStop::Begin) => return thread,
                // Its exec may still be under way, whose stop takes the interrupt back.
                StopChange::Stopped(thread, _) => thread.resume(Resume::ToEvent, 0).unwrap(),
                end => panic!("{end:?}"),
            }
        }
    }

    fn next(&self) -> StopChange {
        loop {
            match wait(self.tid(), 0).unwrap() {
                Waited::Change(change) => {
                    self.has_ended.set(matches!(change, StopChange::Ended(_)));
                    return change;
                }
                Waited::Nothing => {}
                Waited::Nobody => panic!("the child is gone"),
            }
        }
    }

    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.tid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('t')
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // An id that was waited for may be another's.
        if !self.has_ended.get() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[test]
fn a_stopped_thread_stands_still_until_it_is_resumed() {
    let sleeper = Sleeper::seized();
    let thread = sleeper.stopped();
    assert!(sleeper.is_stopped());
    assert!(thread.registers().is_ok());
    thread.resume(Resume::ToEvent, 0).unwrap();
    // It is running again: another interrupt stops it again.
    sleeper.stopped().resume(Resume::ToEvent, 0).unwrap();
}

#[test]
fn a_signal_that_a_thread_is_resumed_with_reaches_it() {
    let sleeper = Sleeper::seized();
    let thread = sleeper.stopped();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(sleeper.tid()).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    thread.resume(Resume::ToEvent, 0).unwrap();
    let StopChange::Stopped(thread, PtraceStop::Signal(signal)) = sleeper.next() else { panic!() };
    assert_eq!(signal, libc::SIGTERM);
    let (_, sender) = thread.signal_code_and_sender().unwrap();
    assert_eq!(sender.unsigned_abs(), std::process::id());
    thread.resume(Resume::ToEvent, signal).unwrap();
    let StopChange::Ended(end) = sleeper.next() else { panic!() };
    assert_eq!((libc::WTERMSIG(end.status), end.tid), (libc::SIGTERM, sleeper.tid()));
}

#[test]
fn a_thread_that_was_killed_while_it_stood_still_is_gone_and_that_is_no_failure() {
    let mut sleeper = Sleeper::seized();
    let thread = sleeper.stopped();
    sleeper.child.kill().unwrap();
    // It is gone once its end can be waited for.
    let end = sleeper.next();
    assert!(end.is_killed(), "{end:?}");
    assert!(matches!(thread.registers(), Err(TraceError::Gone)));
    assert!(matches!(thread.resume(Resume::ToEvent, 0), Err(TraceError::Gone)));
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "in use the thread goes on instead")]
fn dropping_a_stopped_thread_fails_a_test_and_lets_the_thread_go_on() {
    let sleeper = Sleeper::seized();
    let thread = sleeper.stopped();
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(thread)));
    assert!(dropped.is_err());
    // Only a running thread can be interrupted and stop once more.
    sleeper.stopped().detach(0).unwrap();
}

#[test]
fn a_detached_thread_runs_and_is_traced_no_longer() {
    let sleeper = Sleeper::seized();
    sleeper.stopped().detach(0).unwrap();
    let status = proc::ProcessStatus::of(sleeper.tid()).unwrap();
    assert_eq!(status.number("TracerPid"), Some(0));
}
