//! Opening, closing, and where neither is permitted; and what it all costs, which is printed
//! and not judged.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod support;

use std::time::Duration;

use libc::{SYS_close, SYS_lseek, SYS_read};
use support::{call, child, tap, timed};
use tap::{RING_BYTES, Tap, TapError};

#[test]
fn an_ordinary_user_is_refused_at_once() {
    // Only this thread's: the C library's setresuid would change all of them.
    let (opened, took) = std::thread::spawn(|| {
        // SAFETY: asks for a number.
        if unsafe { libc::geteuid() } == 0 {
            assert_eq!(call(libc::SYS_setresuid, &[65534, 65534, 65534]), 0);
        }
        timed(|| Tap::open(&[SYS_close as u16], RING_BYTES).map(drop))
    })
    .join()
    .expect("a thread");
    println!("refused in {took:?}");
    let error = opened.expect_err("an ordinary user opened a tap");
    assert!(matches!(error, TapError::Forbidden(_)), "{error}");
}

#[test]
fn a_number_of_no_native_call_is_refused() {
    let error = Tap::open(&[0, 512], RING_BYTES).map(drop).expect_err("512 is x32's");
    assert!(matches!(error, TapError::NoSuchNumber(512)), "{error}");
}

#[test]
fn another_pid_namespace_has_its_own_ids_and_refuses_those_below_it() {
    if std::env::var_os("TAP_IN_NAMESPACE").is_some() {
        return inside_a_namespace();
    }
    let Some(_tap) = tap(&[SYS_close]) else { return };
    let test = std::env::current_exe().expect("this test");
    let name = "another_pid_namespace_has_its_own_ids_and_refuses_those_below_it";
    let output = std::process::Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(test)
        .args(["--exact", name, "--nocapture"])
        .env("TAP_IN_NAMESPACE", "1")
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("inside, ids are small"), "{said}");
}

fn inside_a_namespace() {
    let mut tap = tap(&[SYS_lseek]).expect("permitted outside");
    let child = child(|| {
        call(SYS_lseek, &[-1, 5]);
    });
    let pid = child.pid;
    assert!(pid < 100, "{pid}");
    let events = child.events(&mut tap);
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].tid, events[0].tgid, events[0].args[1]), (pid, pid, 5));
    println!("inside, ids are small: {pid}");

    // SAFETY: from now on children are in a namespace below.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0);
    let below = support::child(|| ());
    let error = tap.follow(below.pid).expect_err("its ids are not told");
    assert!(matches!(error, TapError::OtherNamespace(_)), "{error}");
    below.go();
    below.wait();
}

#[test]
fn dropping_ends_it_and_leaves_no_descriptor() {
    // Counted in a child, where no other test opens any.
    let Some(tap) = tap(&[SYS_close]) else { return };
    drop(tap);
    let child = child(|| {
        let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let before = descriptors();
        for _ in 0..3 {
            let during = Tap::open(&[SYS_close as u16], RING_BYTES).map(|_tap| descriptors());
            if during.is_err() || descriptors() != before {
                std::process::abort();
            }
        }
    });
    child.go();
    assert_eq!(child.wait(), 0);
}

#[test]
fn what_it_costs() {
    let Some(first) = tap(&[SYS_close]) else { return };
    drop(first);
    // The kernel keeps who attaches waiting until it is done with what was detached before.
    for pause in [0, 0, 200, 200, 200] {
        std::thread::sleep(Duration::from_millis(pause));
        let (opened, open) = timed(|| Tap::open(&[SYS_read as u16], RING_BYTES));
        let tap = opened.expect("a tap");
        let follow = timed(|| (0..1000).for_each(|_| tap.follow(1 << 30).expect("follow"))).1;
        let drop = timed(|| drop(tap)).1;
        println!(
            "open {open:?} ({pause} ms after a drop), follow {:?}, drop {drop:?}",
            follow / 1000
        );
    }
    println!("ns a call: {:.0} with no tap of ours", cost(None, 0));
    let numbers = [SYS_lseek as u16];
    let mut tap = Tap::open(&numbers, 64 << 20).expect("a tap");
    println!("ns a call: {:.0} another process's, not watched", cost(None, 1));
    println!("ns a call: {:.0} another process's, watched number", cost(None, 0));
    println!("ns a call: {:.0} ours, not watched", cost(Some(&mut tap), 1));
    println!("ns a call: {:.0} ours, reported", cost(Some(&mut tap), 0));
    let (mut events, mut end) = (0u64, 0);
    let drain = timed(|| {
        tap.drain(|event| {
            events += 1;
            end = end.max(event.start);
        });
    })
    .1;
    println!("ns to drain one: {:.0}", drain.as_nanos() as f64 / events as f64);
    assert_eq!(tap.lost(), 0);
    assert_eq!(events, 300_000);
    println!("drop after work: {:?}", timed(|| drop(tap)).1);
}

/// The best of three loops in a child, in ns a call of lseek (0) or getppid (1).
fn cost(tap: Option<&mut Tap>, which: usize) -> f64 {
    const CALLS: u32 = 100_000;
    let number = [SYS_lseek, libc::SYS_getppid][which];
    let mut ends = [0; 2];
    // SAFETY: a pipe.
    unsafe { assert_eq!(libc::pipe(ends.as_mut_ptr()), 0) };
    let child = child(|| {
        let best =
            (0..3).map(|_| timed(|| (0..CALLS).for_each(|_| _ = call(number, &[-1]))).1).min();
        let best = best.unwrap_or_default().as_nanos() as u64;
        // SAFETY: eight bytes.
        unsafe { libc::write(ends[1], (&raw const best).cast(), 8) };
    });
    if let Some(tap) = tap {
        tap.follow(child.pid).expect("follow");
    }
    child.go();
    assert_eq!(child.wait(), 0);
    let mut best = 0u64;
    // SAFETY: room for eight bytes, which were written.
    unsafe {
        assert_eq!(libc::read(ends[0], (&raw mut best).cast(), 8), 8);
        ends.iter().for_each(|&end| _ = libc::close(end));
    }
    best as f64 / f64::from(CALLS)
}
