//! Proves at each opening, in half a millisecond, that what the programs report is right on this
//! kernel: the layouts that they rely on are not all promised by it.
//!
//! A child makes one call of the native table and then, where there is another that it can reach,
//! one of the same number of that. The first must be reported as it was made, the second not at all.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::time::{ClockId, clock_gettime};

use crate::arch::{self, WRITEV};
use crate::{CallString, Tap, TapError, TapEvent, WatchedCall};

/// A string that the child passes.
static TEXT: &CStr = c"becalm";

/// What the child passes: no descriptor, so that the kernel does not look at the rest.
fn arguments() -> [u64; 6] {
    [u64::MAX, TEXT.as_ptr() as u64, 0x33, 0x4455_6677_8899, 0xaa, 0xbbcc]
}

/// The one failure that another layout of the kernel's `thread_info` explains.
pub(crate) const COMPAT_REPORTED: &str = "it takes 32-bit system calls for native ones";

/// Watches nothing when it is over.
pub(crate) fn run(tap: &mut Tap) -> Result<(), TapError> {
    let strings = [Some(1), None];
    tap.watch(&[WatchedCall { strings, ..WatchedCall::plain(WRITEV) }]);
    let before = monotonic();
    let child = calls_of_a_child(tap)?;
    let after = monotonic();
    tap.watch(&[]);

    let mut events = Vec::new();
    let mut is_read = true;
    tap.drain_with_strings(|event, strings| {
        is_read &= strings == [CallString::Bytes(TEXT.to_bytes()), CallString::None];
        events.push(event);
    });
    let wrong = match events[..] {
        [] => "it reports nothing",
        [_] if !is_read => "it misreads a call's strings",
        [event] => return judge(&event, child, before, after).map_err(TapError::SelfTest),
        _ => COMPAT_REPORTED,
    };
    Err(TapError::SelfTest(wrong))
}

/// Whether the event is the child's native call, between two times.
fn judge(event: &TapEvent, child: i32, before: u64, after: u64) -> Result<(), &'static str> {
    if event.args != arguments() || event.number != WRITEV || event.ip == 0 {
        return Err("it misreads a call's registers");
    }
    if event.value != -i64::from(libc::EBADF) {
        return Err("it misreads a call's result");
    }
    if event.tid != child || event.tgid != child {
        return Err("it misreads a process's id");
    }
    // A time namespace has another clock than the kernel itself.
    if event.start < before || event.start + event.took > after {
        return Err("its clock is another");
    }
    Ok(())
}

/// Starts the child, follows it and waits for its end.
fn calls_of_a_child(tap: &Tap) -> Result<i32, TapError> {
    let system = |what| move |error| TapError::System { what, error };
    let (go, told) = pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| system("cannot make a pipe")(error.into()))?;
    // A plain fork, except that no signal tells of its end. SAFETY: the child makes nothing but
    // system calls.
    let child = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } as i32;
    let Some(pid) = Pid::from_raw(child.max(0)) else {
        if child < 0 {
            return Err(system("cannot start a process")(io::Error::last_os_error()));
        }
        be_the_child(&go);
    };
    let followed = tap.follow(child);
    // The child waits for the byte; closing the pipe would do as well.
    let _ = rustix::io::write(&told, b"!");
    drop(told);
    let _ = waitpid(Some(pid), WaitOptions::from_bits_retain(libc::__WALL as u32));
    tap.forget(child);
    followed.map(|()| child)
}

/// The child's life. Where the kernel was built without the 32-bit table, `int $0x80` is a
/// memory fault, and the handler keeps it out of the kernel's log.
fn be_the_child(go: &OwnedFd) -> ! {
    let [a, b, c, d, e, f] = arguments();
    let _ = rustix::io::read(go, &mut [0; 1]);
    // SAFETY: system calls only. The handler only ends the child; the native call has no valid
    // descriptor, and getpid of the 32-bit table touches no memory.
    unsafe {
        // A program cannot have a page brought in.
        TEXT.as_ptr().read_volatile();
        libc::signal(libc::SIGSEGV, end as extern "C" fn(i32) -> ! as usize);
        libc::syscall(i64::from(WRITEV), a, b, c, d, e, f);
        arch::call_of_other_table(WRITEV);
    }
    end(0)
}

extern "C" fn end(_signal: i32) -> ! {
    // SAFETY: ends the child, without touching what it shares with us.
    unsafe { libc::_exit(0) }
}

/// CLOCK_MONOTONIC, in ns.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
