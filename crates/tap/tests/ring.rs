//! A ring that fills: who is told, who waits, and what is lost.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod support;

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use libc::SYS_lseek;
use support::{call, child, tap_of};

/// The kernel itself sent the signal (asm-generic/siginfo.h).
const SI_KERNEL: i32 = 0x80;

#[test]
fn a_full_ring_loses_events_counts_them_and_goes_on() {
    let Some(mut tap) = tap_of(&[SYS_lseek], 4096) else { return };
    let many = || {
        child(|| {
            for round in 0..1000 {
                call(SYS_lseek, &[-1, round]);
            }
        })
    };
    let kept = many().events(&mut tap);
    assert!(kept.len() as u64 * 128 <= 4096 && kept.len() > 30, "{} kept", kept.len());
    assert_eq!(kept.len() as u64 + tap.lost(), 1000);
    let rounds: Vec<u64> = kept.iter().map(|event| event.args[1]).collect();
    assert_eq!(rounds, (0..kept.len() as u64).collect::<Vec<_>>(), "the first ones are kept");
    assert_eq!(many().events(&mut tap).len(), kept.len(), "there is room again");
}

#[test]
fn fast_calls_are_drained_by_a_polling_thread_without_loss_in_any_order_of_wakings() {
    const CALLS: i64 = 200_000;
    // Room for all of them: how soon a busy machine lets the reader run is not the tap's doing.
    let Some(mut tap) = tap_of(&[SYS_lseek], 32 << 20) else { return };
    let child = child(|| {
        for round in 0..CALLS {
            call(SYS_lseek, &[-1, round]);
        }
    });
    let follower = tap.follower();
    follower.follow(child.pid).expect("follow");
    static NEXT: AtomicI32 = AtomicI32::new(0);
    let (over, end) = UnixStream::pair().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut wakings, mut is_over) = (0, false);
        // However slow the calls are, only the ring wakes the reader before the end.
        while !is_over {
            let mut poll = [raw(&tap), std::os::fd::AsRawFd::as_raw_fd(&over)]
                .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            // SAFETY: two descriptors.
            unsafe { libc::poll(poll.as_mut_ptr(), 2, -1) };
            wakings += i32::from(poll[0].revents != 0);
            is_over = poll[1].revents != 0;
            drain(&mut tap, &NEXT);
        }
        (wakings, tap.lost())
    });
    let start = Instant::now();
    child.go();
    assert_eq!(child.wait(), 0);
    let took = start.elapsed();
    drop(end);
    let (wakings, lost) = reader.join().expect("the reader");
    println!("{CALLS} calls in {took:?}, {lost} lost, {wakings} wakings");
    assert_eq!((i64::from(NEXT.load(Ordering::Relaxed)), lost), (CALLS, 0));
    // Being woken for each call would be far more.
    assert!((1..1000).contains(&wakings), "{wakings} wakings");

    fn raw(tap: &tap::Tap) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&tap.ready())
    }
    fn drain(tap: &mut tap::Tap, next: &AtomicI32) {
        tap.drain(|event| {
            assert_eq!(event.args[1], next.fetch_add(1, Ordering::Relaxed) as u64);
        });
    }
}

#[test]
fn braked_threads_wait_for_their_tracer_and_no_event_is_lost_however_slow_it_is() {
    const THREADS: i64 = 4;
    const CALLS: i64 = 50_000;
    // A ring that holds half a percent of it.
    let Some(mut tap) = tap_of(&[SYS_lseek], 128 << 10) else { return };
    tap.brake();
    let child = child(|| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                std::thread::spawn(move || {
                    for round in 0..CALLS {
                        assert_eq!(call(SYS_lseek, &[-1, thread, round]), -1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    });
    tap.follow(child.pid).expect("follow");
    let (pid, mut stops) = (child.pid, 0);
    // SAFETY: ptrace of our own child and of its threads; room for what is asked.
    unsafe {
        let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, pid, 0, options), 0);
        child.go();
        let mut next = [0; THREADS as usize];
        loop {
            let mut status = 0;
            let tid = libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD);
            tap.drain(|event| {
                let next = &mut next[event.args[1] as usize];
                assert_eq!(event.args[2], *next);
                *next += 1;
            });
            if libc::WIFSTOPPED(status) {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                libc::ptrace(libc::PTRACE_GETSIGINFO, tid, 0, &raw mut info);
                stops += i32::from(status >> 8 == libc::SIGSTOP && info.si_code == SI_KERNEL);
                libc::ptrace(libc::PTRACE_CONT, tid, 0, 0);
            } else if tid == pid {
                assert_eq!(status, 0);
                break;
            }
        }
        assert_eq!(next, [CALLS as u64; THREADS as usize]);
    }
    println!("{stops} stops for {} calls", THREADS * CALLS);
    assert_eq!(tap.lost(), 0);
    // At three quarters of 1092 events, of each of the threads at worst.
    assert!((100..2000).contains(&stops), "{stops} stops");
}

#[test]
fn ready_is_readable_only_from_an_eighth_on_and_no_more_when_drained() {
    let Some(mut tap) = tap_of(&[SYS_lseek], 64 << 10) else { return };
    let readable = |tap: &tap::Tap| {
        let fd = std::os::fd::AsRawFd::as_raw_fd(&tap.ready());
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor.
        unsafe { libc::poll(&raw mut poll, 1, 20) == 1 }
    };
    // 64 events of 128 bytes are an eighth, and the next one finds that.
    for round in 0..3 {
        for (calls, expected) in [(64, false), (65, true)] {
            let child = child(|| {
                for _ in 0..calls {
                    call(SYS_lseek, &[-1]);
                }
            });
            tap.follow(child.pid).expect("follow");
            child.go();
            child.wait();
            assert_eq!(readable(&tap), expected, "{calls} calls, round {round}");
            tap.drain(|_| ());
            assert!(!readable(&tap));
        }
    }
}
