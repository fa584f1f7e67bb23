use std::time::Duration;

use recording::{Abi, Call};

use super::*;

fn call(name: &str) -> Call {
    Call::all(Abi::X86_64).find(|call| call.known_name() == Some(name)).unwrap()
}

fn opened(path: u32, at_millis: u64) -> Event {
    let start = Nanos(at_millis * 1_000_000);
    Event { start, path: Some(PathId(path)), ..Event::new(call("openat"), Outcome::Returned(3)) }
}

fn idle() -> Waiting {
    Waiting { in_call_since: None, faults: 0, touched: 0, processors: ProcessorTime::default() }
}

/// Looks every 50 ms, as the tracer does; the millisecond at which the start is over.
fn over(watch: &mut StartWatch, waiting: impl Fn(u64) -> Waiting) -> Option<u64> {
    (0..600)
        .map(|look| look * 50)
        .find(|millis| watch.is_over(Nanos(millis * 1_000_000), || waiting(*millis)).is_some())
}

#[test]
fn a_start_is_over_when_nothing_new_was_opened_for_half_a_second() {
    let mut watch = StartWatch::new(vec![Until::Quiet], Nanos(0));
    watch.returned(&opened(0, 100), Some(b"/lib/a"));
    watch.returned(&opened(0, 300), Some(b"/lib/a"));
    watch.returned(&opened(1, 400), Some(b"/proc/self/stat"));
    assert_eq!(over(&mut watch, |_| idle()), Some(600), "neither the same again nor /proc is new");
}

#[test]
fn a_script_that_forks_is_never_quiet() {
    let mut watch = StartWatch::new(vec![Until::Quiet], Nanos(0));
    let ended = (0..100).find(|look| {
        let now = Nanos(look * 50_000_000);
        if look % 8 == 0 && *look <= 64 {
            watch.born(now);
        }
        watch.is_over(now, idle).is_some()
    });
    assert_eq!(ended, Some(64 + 10));
}

#[test]
fn waiting_for_a_filesystem_is_no_quiet() {
    let mut watch = StartWatch::new(vec![Until::Quiet], Nanos(0));
    let in_call =
        |millis: u64| Waiting { in_call_since: (millis < 2000).then_some(Nanos(0)), ..idle() };
    assert_eq!(over(&mut watch, in_call), Some(2450));
    let mut watch = StartWatch::new(vec![Until::Quiet], Nanos(0));
    let faulting = |millis: u64| Waiting { faults: millis.min(3000) / 50, ..idle() };
    assert_eq!(over(&mut watch, faulting), Some(3500));
}

#[test]
fn a_program_that_touches_more_and_more_of_its_files_is_starting_up_to_a_bound() {
    let ends = |each: u64, last: u64| {
        let touching = |millis: u64| Waiting { touched: millis.min(last) / 50 * each, ..idle() };
        over(&mut StartWatch::new(vec![Until::Quiet], Nanos(0)), touching)
    };
    assert_eq!(ends(1, 3000), Some(3500));
    // At the first look nothing is known of before.
    let work = 50 + 50 * TOUCHES / 100;
    assert_eq!(ends(100, u64::MAX), Some(work - 50 + 500));
}

#[test]
fn waiting_for_a_processor_is_no_quiet_and_computing_is() {
    let of = |used: u64, waited: u64| {
        move |millis: u64| Waiting {
            processors: ProcessorTime {
                used: Duration::from_micros(millis * used * 10),
                waited: Duration::from_micros(millis * waited * 10),
            },
            ..idle()
        }
    };
    let ends =
        |used, waited| over(&mut StartWatch::new(vec![Until::Quiet], Nanos(0)), of(used, waited));
    assert_eq!(ends(0, 0), Some(500), "asleep");
    assert_eq!(ends(100, 0), Some(500), "it computes");
    assert_eq!(ends(400, 100), Some(650), "four threads compute, and a fifth waits");
    assert_eq!(ends(10, 90), Some(4550), "a tenth counts, of what is after the first look");
}

#[test]
fn a_program_that_reads_and_reads_is_at_its_work() {
    let read = |path| Event { path, ..Event::new(call("read"), Outcome::Returned(1)) };
    let mut watch = StartWatch::new(vec![Until::Quiet], Nanos(0));
    let after = |watch: &mut StartWatch, path: Option<PathId>, times: u32| {
        (0..times).for_each(|_| watch.returned(&read(path), path.map(|_| &b"/data"[..])));
        watch.is_over(Nanos(1_000_000), idle).is_some()
    };
    assert!(!after(&mut watch, None, 2 * STREAM), "pipes");
    assert!(!after(&mut watch, Some(PathId(0)), STREAM - 1));
    watch.returned(&opened(0, 0), Some(b"/lib/a"));
    assert!(!after(&mut watch, Some(PathId(0)), STREAM - 1));
    assert!(after(&mut watch, Some(PathId(0)), 1));
}

#[test]
fn time_an_open_and_a_program_end_it_whatever_comes_first() {
    let all = || ["1.2", "open:*.nml", "exec:app"].map(|text| text.parse().unwrap()).to_vec();
    let mut watch = StartWatch::new(all(), Nanos(0));
    assert_eq!(over(&mut watch, |_| idle()), Some(1200));
    let mut watch = StartWatch::new(all(), Nanos(0));
    watch.returned(&opened(1, 1), Some(b"/run/in.nml"));
    let why = watch.is_over(Nanos(0), idle).unwrap().why;
    assert_eq!(why, LetGoReason::Open { path: "/run/in.nml".into() });
    let mut watch = StartWatch::new(all(), Nanos(0));
    watch.executed(b"/opt/app", b"/bin/sh", Nanos(0));
    assert_eq!(
        watch.is_over(Nanos(0), idle).unwrap().why,
        LetGoReason::Exec { name: "app".into() }
    );
}

#[test]
fn mpi_init_holds_quiet_off_and_ends_the_start_when_it_returns() {
    let quiet = QUIET.as_millis() as u64;
    let mut watch = StartWatch::new(vec![Until::Start], Nanos(0));
    watch.mpi.has_it(7);
    watch.mpi.trapped(7, crate::mpi_init::Trapped::Entry, Nanos(5));
    assert_eq!(over(&mut watch, |_| idle()), None);
    watch.mpi.trapped(7, crate::mpi_init::Trapped::Return, Nanos(9));
    let over_at = watch.is_over(Nanos(Duration::from_secs(40).as_nanos() as u64), idle);
    let over_at = over_at.unwrap();
    assert_eq!((over_at.why, over_at.mpi_init), (LetGoReason::MpiInit, Some(Nanos(5))));
    let mut uncalled = StartWatch::new(vec![Until::Start], Nanos(0));
    uncalled.mpi.has_it(7);
    assert_eq!(over(&mut uncalled, |_| idle()), Some(10_000));
    let mut without = StartWatch::new(vec![Until::Start], Nanos(0));
    assert_eq!(over(&mut without, |_| idle()), Some(quiet));
}
