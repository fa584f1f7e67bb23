//! Children that make exact calls, and a tap that may not be there.
#![allow(dead_code)]

use std::cell::Cell;
use std::time::{Duration, Instant};

use tap::{Tap, TapError, TapEvent};

/// Opens a tap; None, and a word about it, where it is not permitted. Continuous integration as
/// root must have it.
pub fn tap(numbers: &[i64]) -> Option<Tap> {
    tap_of(numbers, tap::RING_BYTES)
}

/// As [`tap`], with a ring of this many bytes.
pub fn tap_of(numbers: &[i64], ring_bytes: usize) -> Option<Tap> {
    let numbers: Vec<u16> = numbers.iter().map(|&number| number as u16).collect();
    match Tap::open(&numbers, ring_bytes) {
        Ok(tap) => Some(tap),
        Err(error @ TapError::Forbidden(_)) => {
            // SAFETY: asks for a number.
            let root = unsafe { libc::geteuid() } == 0;
            assert!(!root || std::env::var_os("CI").is_none(), "no tap, as root: {error}");
            eprintln!("NOT TESTED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A child that waits until it is let go.
pub struct Child {
    pub pid: i32,
    go: Cell<i32>,
}

/// Forks a child that will do `body` and exit.
pub fn child(body: impl FnOnce()) -> Child {
    let mut ends = [0; 2];
    // SAFETY: the child does what `body` does, which is system calls and threads.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let pid = libc::fork();
        assert!(pid >= 0);
        if pid == 0 {
            let mut byte = 0u8;
            libc::close(ends[1]);
            // Not to outlive a test that fails.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::read(ends[0], (&raw mut byte).cast(), 1);
            body();
            libc::_exit(0);
        }
        libc::close(ends[0]);
        Child { pid, go: Cell::new(ends[1]) }
    }
}

impl Child {
    pub fn go(&self) {
        let go = self.go.replace(-1);
        // SAFETY: one byte to a pipe of ours.
        unsafe {
            assert_eq!(libc::write(go, c"!".as_ptr().cast(), 1), 1);
            libc::close(go);
        }
    }

    /// Its end: the status that waitpid gives.
    pub fn wait(self) -> i32 {
        let mut status = 0;
        // SAFETY: our child.
        unsafe { assert_eq!(libc::waitpid(self.pid, &raw mut status, 0), self.pid) };
        status
    }

    /// Kills it and waits until it is dead, and no more.
    pub fn kill(&self) {
        let (child, how) = (self.pid as libc::id_t, libc::WEXITED | libc::WNOWAIT);
        // SAFETY: our child; zero is a valid siginfo_t.
        unsafe {
            let mut info = std::mem::zeroed();
            assert_eq!(libc::kill(self.pid, libc::SIGKILL), 0);
            assert_eq!(libc::waitid(libc::P_PID, child, &raw mut info, how), 0);
        }
    }

    /// Follows it, lets it live its life, and says what was reported.
    pub fn events(self, tap: &mut Tap) -> Vec<TapEvent> {
        let pid = self.pid;
        tap.follow(pid).expect("follow");
        self.go();
        assert_eq!(self.wait(), 0, "the child failed");
        tap.forget(pid);
        let mut events = Vec::new();
        tap.drain(|event| events.push(event));
        events
    }
}

/// One system call, with up to six arguments.
pub fn call(number: i64, args: &[i64]) -> i64 {
    let at = |index: usize| args.get(index).copied().unwrap_or(0);
    // SAFETY: the tests' own calls; none of them passes a bad pointer that is looked at.
    unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) }
}

/// How long it took, beside what it gave.
pub fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = what();
    (done, start.elapsed())
}
