//! What this process inherited, seen before Rust's runtime changed it.
//!
//! Before `main`, Rust ignores SIGPIPE and opens /dev/null on closed standard descriptors
//! (library/std/src/sys/pal/unix/mod.rs, `init`). A command must inherit neither change, so
//! both are noted by a constructor, which runs earlier. Nor may what was inherited get in the way
//! here: where SIGCHLD is ignored, no child can be waited for (wait(2)); and where a file would be longer
//! than allowed (`ulimit -f`), SIGXFSZ would end becalm with its work half done: ignored, it is an error
//! of the write as any other (setrlimit(2)).

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use crate::signals::Disposition;

static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static SIGCHLD_IGNORED: AtomicBool = AtomicBool::new(false);
static SIGXFSZ_IGNORED: AtomicBool = AtomicBool::new(false);
static CLOSED: AtomicU8 = AtomicU8::new(0);

#[used]
// SAFETY: `.init_array` holds functions of this type, which the C runtime calls once, before
// `main`; `note` uses nothing that needs Rust's runtime.
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    let mut standard = [0, 1, 2].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
    // SAFETY: it fills in what it says of these three. One call is fewer than three.
    let polled = unsafe { libc::poll(standard.as_mut_ptr(), 3, 0) } >= 0;
    for (at, one) in standard.iter().enumerate() {
        let is_closed = match polled {
            true => one.revents & libc::POLLNVAL != 0,
            // Where no three descriptors may be open (ulimit -n).
            // SAFETY: F_GETFD reads a flag of a descriptor, or fails on a closed one.
            false => unsafe { libc::fcntl(one.fd, libc::F_GETFD) < 0 },
        };
        if is_closed {
            CLOSED.fetch_or(1 << at, Relaxed);
        }
    }
    SIGPIPE_IGNORED.store(Disposition::of(libc::SIGPIPE) == Disposition::IGNORED, Relaxed);
    if Disposition::of(libc::SIGCHLD) == Disposition::IGNORED {
        SIGCHLD_IGNORED.store(true, Relaxed);
        Disposition::DEFAULT.give(libc::SIGCHLD);
    }
    let beyond_limit = Disposition::IGNORED.give(libc::SIGXFSZ);
    SIGXFSZ_IGNORED.store(beyond_limit == Disposition::IGNORED, Relaxed);
}

/// Makes the calling process's SIGPIPE, SIGCHLD, SIGXFSZ and standard descriptors what they were. For a
/// child between fork and exec: it only makes system calls.
pub(crate) fn restore() {
    restore_signals();
    for fd in closed_standard() {
        // SAFETY: the descriptor is the /dev/null of Rust's runtime; nothing here uses it.
        unsafe { libc::close(fd) };
    }
}

/// The same of the signals alone, for a child that has been given standard descriptors.
pub fn restore_signals() {
    match SIGPIPE_IGNORED.load(Relaxed) {
        true => Disposition::IGNORED.give(libc::SIGPIPE),
        false => Disposition::DEFAULT.give(libc::SIGPIPE),
    };
    if SIGCHLD_IGNORED.load(Relaxed) {
        Disposition::IGNORED.give(libc::SIGCHLD);
    }
    if !SIGXFSZ_IGNORED.load(Relaxed) {
        Disposition::DEFAULT.give(libc::SIGXFSZ);
    }
}

/// For a process that has been given standard descriptors of its own: they are the ones to hand
/// on.
pub(crate) fn has_standard_streams() {
    CLOSED.store(0, Relaxed);
}

/// Whether a standard descriptor was closed when this process began.
pub fn was_closed(fd: i32) -> bool {
    closed_standard().any(|closed| closed == fd)
}

/// The standard descriptors that were closed when this process began.
fn closed_standard() -> impl Iterator<Item = i32> {
    let closed = CLOSED.load(Relaxed);
    (0..3).filter(move |fd| closed & (1 << fd) != 0)
}
