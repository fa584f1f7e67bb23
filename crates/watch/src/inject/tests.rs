use std::cell::RefCell;
use std::rc::Rc;

use recording::{Call, Outcome};

use super::*;
use crate::decode::CallEntry;
use crate::shape::{CallShapes, Extent};

const MILLI: u64 = 1_000_000;
const NOBODY: [i32; 0] = [];

/// What a policy was told, and what it answers.
#[derive(Clone, Default)]
struct ScriptedPolicy {
    calls: Rc<RefCell<Vec<Nanos>>>,
    answers: Rc<RefCell<Vec<Vec<u64>>>>,
}

impl DelayPolicy for ScriptedPolicy {
    fn delay(&mut self, call: &ReturnedCall<'_>) -> Option<Deadlines> {
        self.calls.borrow_mut().push(call.made);
        let deadlines = self.answers.borrow_mut().pop()?;
        Some(Box::new(deadlines.into_iter().map(Nanos)))
    }
}

/// An injector of a recording that began at 1 ms, with these answers, the last one first.
fn injector(answers: &[&[u64]]) -> (DelayInjector, ScriptedPolicy) {
    let script = ScriptedPolicy::default();
    *script.answers.borrow_mut() = answers.iter().map(|answer| answer.to_vec()).collect();
    let injector = DelayInjector::beginning(Box::new(script.clone()), Nanos(MILLI), Nanos(MILLI));
    (injector, script)
}

fn event(tid: i32, name: &str) -> (Event, PendingCall) {
    let call = Call::named(name).unwrap();
    let shape = CallShapes::new(Extent::Default).of(call);
    let pending = PendingCall::of(&CallEntry { call, shape, args: [0; 6], ip: 0 }, Nanos(10));
    let event = Event {
        start: Nanos(10),
        took: Nanos(5),
        thread: tid.unsigned_abs(),
        ..Event::new(call, Outcome::Returned(0))
    };
    (event, pending)
}

/// Decides about a call of a thread that returns at this moment, and delays it if need be.
fn returns(injector: &mut DelayInjector, tid: i32, name: &str, now: u64) -> bool {
    let (event, pending) = event(tid, name);
    let Some(delay) = injector.decide(&event, &pending, Nanos(now)) else { return false };
    injector.inject(StoppedThread::heard_of(tid), delay);
    true
}

/// Who goes on at this moment.
fn expired(injector: &mut DelayInjector, now: u64) -> Vec<i32> {
    let mut gone_on = Vec::new();
    while let Some((thread, event)) = injector.expired(Nanos(now)) {
        assert_eq!(thread.tid().unsigned_abs(), event.thread);
        gone_on.push(thread.tid());
        thread.killed();
    }
    gone_on
}

#[test]
fn threads_go_on_when_their_deadlines_come_and_not_in_the_order_of_their_calls() {
    let (mut injector, _) = injector(&[&[4 * MILLI], &[5 * MILLI]]);
    assert!(returns(&mut injector, 1, "openat", 2 * MILLI));
    assert!(returns(&mut injector, 2, "openat", 2 * MILLI));
    assert_eq!(expired(&mut injector, 4 * MILLI - 1), NOBODY);
    assert_eq!(expired(&mut injector, 4 * MILLI), [2]);
    assert_eq!(expired(&mut injector, 9 * MILLI), [1]);
    assert_eq!(expired(&mut injector, 9 * MILLI), NOBODY, "once");
}

#[test]
fn a_policy_hears_of_metadata_only_and_when_it_was_asked_for() {
    let (mut injector, script) = injector(&[]);
    for name in ["read", "mmap", "close", "openat"] {
        assert!(!returns(&mut injector, 1, name, 2 * MILLI));
    }
    assert_eq!(*script.calls.borrow(), [Nanos(MILLI + 10)]);
}

#[test]
fn a_deadline_that_has_passed_delays_nobody() {
    let (mut injector, _) = injector(&[&[2 * MILLI], &[]]);
    assert!(!returns(&mut injector, 1, "openat", 2 * MILLI), "no deadline");
    assert!(!returns(&mut injector, 1, "openat", 2 * MILLI), "that of this moment");
    assert_eq!(injector.idle(Nanos(2 * MILLI)), None);
}

#[test]
fn deadlines_of_one_call_follow_one_another() {
    let (mut injector, _) = injector(&[&[3 * MILLI, 4 * MILLI, 4 * MILLI, 6 * MILLI]]);
    assert!(returns(&mut injector, 1, "openat", 2 * MILLI));
    for now in [3, 4, 5] {
        assert_eq!(expired(&mut injector, now * MILLI), NOBODY);
    }
    assert_eq!(expired(&mut injector, 6 * MILLI), [1]);
}

#[test]
fn nothing_is_to_be_done_until_shortly_before_the_next_deadline() {
    let (mut injector, _) = injector(&[&[4 * MILLI], &[1000 * MILLI]]);
    assert!(returns(&mut injector, 1, "openat", 2 * MILLI));
    assert_eq!(injector.idle(Nanos(2 * MILLI)), Some(LOOK), "and who is killed is looked for");
    assert!(returns(&mut injector, 2, "openat", 2 * MILLI));
    assert_eq!(injector.idle(Nanos(2 * MILLI)), Some(Nanos(2 * MILLI - AWAKE.0)));
    assert_eq!(injector.idle(Nanos(4 * MILLI)), Some(Nanos(0)));
    injector.all().into_iter().for_each(|(thread, _)| thread.killed());
}

#[test]
fn a_thread_that_vanishes_is_delayed_no_longer_and_its_call_is_not_lost() {
    let (mut injector, _) = injector(&[&[4 * MILLI]]);
    assert!(returns(&mut injector, 1, "openat", 2 * MILLI));
    assert_eq!(injector.vanished(1).map(|event| event.thread), Some(1));
    assert!(injector.vanished(1).is_none());
    assert_eq!((injector.idle(Nanos(0)), expired(&mut injector, 9 * MILLI)), (None, vec![]));
}

#[test]
fn an_id_that_is_used_again_has_its_own_deadline() {
    let (mut injector, _) = injector(&[&[9 * MILLI], &[4 * MILLI]]);
    assert!(returns(&mut injector, 1, "openat", 2 * MILLI));
    injector.vanished(1);
    assert!(returns(&mut injector, 1, "openat", 3 * MILLI));
    assert_eq!(expired(&mut injector, 4 * MILLI), NOBODY);
    assert_eq!(expired(&mut injector, 9 * MILLI), [1]);
}

#[test]
fn what_a_switch_to_the_tracer_takes_at_least_is_part_of_the_delay() {
    let (mut injector, _) = injector(&[&[4 * MILLI]]);
    for took in [300, 100, 200] {
        injector.went_on(1, Nanos(MILLI));
        assert!(!returns(&mut injector, 1, "read", MILLI + took));
    }
    // Another thread's stop came between: that says nothing.
    injector.went_on(2, Nanos(MILLI));
    assert!(!returns(&mut injector, 1, "read", MILLI + 1));
    assert!(returns(&mut injector, 1, "openat", 2 * MILLI));
    assert_eq!(expired(&mut injector, 4 * MILLI - 101), NOBODY);
    assert_eq!(expired(&mut injector, 4 * MILLI - 100), [1]);
}
