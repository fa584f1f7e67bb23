//! A child of this process: forked, ended, waited for.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// The status of a child that panicked, or that was left alone too early.
pub(crate) const FAILED: i32 = 125;

/// Starts a child that runs `child` on its copy of `shared`, and ends with the status that it
/// returns, without what this process has prepared for its own end. The caller gets its `shared`
/// back, with the child's process id: each side closes what is for the other.
///
/// The process must have one thread; if it has several, `child` may only make system calls.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub fn fork_with<T>(shared: T, child: impl FnOnce(T) -> i32) -> io::Result<(i32, T)> {
    // SAFETY: the child has memory of its own. By the contract above, it takes no lock that a
    // thread held which it does not have.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // A panic must not unwind into what the caller would have done next.
            let status = catch_unwind(AssertUnwindSafe(|| child(shared))).unwrap_or(FAILED);
            // SAFETY: ends the process.
            unsafe { libc::_exit(status) }
        }
        pid => Ok((pid, shared)),
    }
}

/// Starts a child as [`fork_with`] does, and returns its process id. What `child` owns is dropped
/// in this process.
///
/// # Errors
/// As [`fork_with`].
pub fn forked(child: impl FnOnce() -> i32) -> io::Result<i32> {
    fork_with((), |()| child()).map(|(pid, ())| pid)
}

/// Has the kernel kill the calling process when its parent, which is this one, ends; whether that
/// one is its parent still. Only makes system calls.
pub(crate) fn die_with(parent: i32) -> bool {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    Pid::as_raw(getppid()) == parent
}

/// Waits until a child, or a process that this one traces, ends, or does what else `options` say
/// (wait4(2)). Returns its wait status and, of one that has ended, what it used; none with
/// `WNOHANG` where nothing has happened.
///
/// # Errors
/// ECHILD. It is not interrupted by signals.
pub fn wait_for(pid: i32, options: i32) -> io::Result<Option<(i32, libc::rusage)>> {
    loop {
        let mut status = 0;
        // SAFETY: rusage is plain numbers, for which zero is valid; the kernel fills both.
        let (got, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid, &mut status, options, &mut usage), usage)
        };
        if got >= 0 {
            return Ok((got > 0).then_some((status, usage)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
