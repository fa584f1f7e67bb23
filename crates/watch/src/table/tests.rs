use recording::{ByteUnits, Call, Micros, Nanos};

use super::*;
use crate::decode::CallEntry;
use crate::shape::{CallShapes, Extent};

const CLONE_A_THREAD: u64 =
    (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_FILES | libc::CLONE_FS) as u64;

/// A table with the command, process 100.
fn table() -> ProcessTable {
    let mut table = ProcessTable::default();
    table.add_process(Task::new(100), None);
    table
}

fn forks(table: &mut ProcessTable, parent: i32, child: i32, flags: u64) -> Option<ProcessId> {
    let (task, group) = (table.task(parent).unwrap().child(child, flags), table.group_of(parent));
    match kind_of_birth(flags) {
        Some(_) => Some(table.add_process(task, Some(group))),
        None => {
            table.add_thread(task);
            None
        }
    }
}

fn pending(name: &str) -> PendingCall {
    let call = Call::named(name).unwrap();
    let shape = CallShapes::new(Extent::Default).of(call);
    PendingCall::of(&CallEntry { call, shape, args: [0; 6], ip: 0 }, Nanos(0))
}

fn used(user: u64, peak: u64) -> Usage {
    Usage { user: Micros(user), system: Micros(0), max_rss: ByteUnits(peak) }
}

fn threads(table: &ProcessTable) -> Vec<i32> {
    let mut threads: Vec<i32> = table.tasks.keys().copied().collect();
    threads.sort_unstable();
    threads
}

#[test]
fn flags_say_what_is_born() {
    let (vm, vfork) = (libc::CLONE_VM as u64, libc::CLONE_VFORK as u64);
    assert_eq!(kind_of_birth(0), Some(StartCall::Fork));
    assert_eq!(kind_of_birth(vm | vfork), Some(StartCall::Vfork));
    assert_eq!(kind_of_birth(vm), Some(StartCall::Clone));
    assert_eq!(kind_of_birth(CLONE_A_THREAD), None);
}

#[test]
fn a_thread_shares_what_its_flags_say_and_a_fork_has_a_copy() {
    let mut table = table();
    forks(&mut table, 100, 101, CLONE_A_THREAD);
    forks(&mut table, 101, 200, 0);
    let cwd = |tid: i32| table.task(tid).unwrap().directories.borrow().cwd.clone();
    table.task(100).unwrap().directories.borrow_mut().cwd = Some(b"/x".to_vec());
    assert_eq!((cwd(101), cwd(200)), (Some(b"/x".to_vec()), None));
    assert_eq!((table.group_of(101), table.group_of(200)), (100, 200));
    assert_eq!(table.process(200).unwrap().parent, Some(100), "of the process, not of the thread");
    assert_eq!((table.threads(), table.running()), (3, 2));
}

#[test]
fn processes_are_numbered_in_the_order_of_their_starts() {
    let mut table = table();
    assert_eq!(forks(&mut table, 100, 300, 0), Some(ProcessId(1)));
    assert_eq!(forks(&mut table, 300, 200, 0), Some(ProcessId(2)));
    // The kernel gives an id again once its process was waited for.
    table.ended(300, used(1, 1));
    assert_eq!(forks(&mut table, 200, 300, 0), Some(ProcessId(3)));
}

#[test]
fn an_exec_of_the_first_thread_ends_all_others() {
    let mut table = table();
    forks(&mut table, 100, 101, CLONE_A_THREAD);
    forks(&mut table, 100, 102, CLONE_A_THREAD);
    forks(&mut table, 100, 200, 0);
    table.enter_call(101, pending("read"));
    table.enter_call(100, pending("execve"));
    let mut gone = table.executed(100, 100);
    gone.sort_unstable();
    assert_eq!((gone, threads(&table)), (vec![101, 102], vec![100, 200]));
    assert!(table.others_are_quiet(200), "the first is in its exec, and no other counts");
}

#[test]
fn an_exec_of_another_thread_takes_over_the_first_ones_id_and_keeps_its_own_call() {
    for first_is_gone in [false, true] {
        let mut table = table();
        forks(&mut table, 100, 101, CLONE_A_THREAD);
        forks(&mut table, 100, 102, CLONE_A_THREAD);
        table.enter_call(100, pending("futex"));
        table.enter_call(101, pending("execve"));
        if first_is_gone {
            table.remove_thread(100);
        }
        let gone = table.executed(100, 101);
        assert_eq!(gone.contains(&100), !first_is_gone);
        assert_eq!(threads(&table), [100]);
        assert_eq!(table.leave_call(100).unwrap().call.name(), "execve");
        assert!(table.others_are_quiet(100), "the one thread that there is");
    }
}

#[test]
fn a_thread_that_vanishes_in_a_call_or_asleep_is_counted_no_more() {
    let mut table = table();
    forks(&mut table, 100, 101, CLONE_A_THREAD);
    forks(&mut table, 100, 102, CLONE_A_THREAD);
    table.enter_call(101, pending("read"));
    table.look_who_sleeps(100, |tid| tid == 102);
    assert!(table.others_are_quiet(100));
    assert!(table.hears_of(102));
    assert!(!table.others_are_quiet(100), "it has stopped: it was not asleep");
    table.look_who_sleeps(100, |tid| tid == 102);
    table.remove_thread(101);
    table.remove_thread(102);
    assert!(table.others_are_quiet(100));
    assert!(!table.hears_of(102));
}

#[test]
fn a_call_that_is_entered_twice_is_one_call() {
    let mut table = table();
    forks(&mut table, 100, 101, CLONE_A_THREAD);
    // A call that a signal broke off is made again.
    table.enter_call(101, pending("read"));
    table.enter_call(101, pending("read"));
    assert!(table.others_are_quiet(100));
    assert!(table.leave_call(101).is_some() && table.leave_call(101).is_none());
    assert!(!table.others_are_quiet(100));
}

#[test]
fn what_a_child_used_is_its_parents_once_that_has_waited_for_it() {
    let mut table = table();
    forks(&mut table, 100, 200, 0);
    forks(&mut table, 100, 300, 0);
    assert!(!table.reaped(100, 200), "it has not ended");
    table.ended(200, used(5, 10));
    table.ended(300, used(7, 30));
    assert!(table.reaped(100, 200), "its end is to be watched from now on");
    table.process_mut(100).unwrap().watches_exit = true;
    assert!(!table.reaped(100, 300), "as it is already");
    assert!(!table.reaped(100, 300), "once");
    let command = table.ended(100, used(0, 0)).unwrap();
    assert_eq!(command.own_usage(&used(20, 30)).user, Micros(8));
}

#[test]
fn a_child_whose_parent_has_ended_leaves_no_usage_behind() {
    let mut table = table();
    forks(&mut table, 100, 200, 0);
    assert!(table.ended(100, used(1, 1)).is_some());
    assert!(table.ended(200, used(5, 10)).is_some());
    assert!(table.ended(200, used(5, 10)).is_none(), "once");
    assert!(!table.reaped(100, 200));
    assert_eq!((table.threads(), table.running()), (0, 0));
}

#[test]
fn a_stranger_has_a_parent_while_its_parent_or_its_first_thread_is_followed() {
    let table = table();
    assert!(table.has_parent(200, Some(100), Some(200)));
    assert!(table.has_parent(101, Some(1), Some(100)));
    assert!(!table.has_parent(200, Some(1), Some(200)));
    assert!(!table.has_parent(100, Some(1), Some(100)), "nobody is his own parent");
    assert!(!table.has_parent(200, None, None));
}

#[test]
fn who_waits_where_its_return_is_not_seen_sleeps_until_it_is_heard_of() {
    let mut table = table();
    forks(&mut table, 100, 101, 0);
    assert!(!table.others_are_quiet(101));
    table.falls_asleep(100);
    table.falls_asleep(100);
    assert!(table.others_are_quiet(101) && !table.others_are_quiet(100));
    table.hears_of(100);
    assert!(!table.others_are_quiet(101));
}
