//! wait4(2): where stopped threads come from.

use std::io;

use recording::{ByteUnits, Micros, Usage};

use super::{PtraceStop, StoppedThread};

/// What has happened to a thread.
#[derive(Debug)]
pub(crate) enum StopChange {
    /// It stands still.
    Stopped(StoppedThread, PtraceStop),
    /// It has ended.
    Ended(ThreadEnd),
}

/// The end of a thread, or of a process with its first one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadEnd {
    pub tid: i32,
    /// As waitpid(2) has it.
    pub status: i32,
    /// What it and its reaped children used.
    pub usage: Usage,
}

impl StopChange {
    pub fn tid(&self) -> i32 {
        match self {
            StopChange::Stopped(thread, _) => thread.tid(),
            StopChange::Ended(end) => end.tid,
        }
    }

    /// Whether SIGKILL has ended it.
    pub fn is_killed(&self) -> bool {
        let by_kill = |status| libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
        matches!(self, StopChange::Ended(end) if by_kill(end.status))
    }
}

/// What came of waiting.
#[derive(Debug)]
pub(crate) enum Waited {
    Change(StopChange),
    /// Nothing has changed (with WNOHANG).
    Nothing,
    /// There is no child left.
    Nobody,
}

/// Waits for a change of a child, or of any (-1).
pub(crate) fn wait(tid: i32, flags: i32) -> io::Result<Waited> {
    wait_status(tid, flags).map(|(waited, _)| waited)
}

/// The same, with the status that it was told by.
fn wait_status(tid: i32, flags: i32) -> io::Result<(Waited, i32)> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which zero is a valid value; the kernel fills it and
    // the status, which outlive the call.
    let (tid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(tid, &mut status, libc::__WALL | flags, &mut usage), usage)
    };
    let waited = match tid {
        0 => Waited::Nothing,
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EINTR) => Waited::Nothing,
            error if error.raw_os_error() == Some(libc::ECHILD) => Waited::Nobody,
            error => return Err(error),
        },
        _ => Waited::Change(match PtraceStop::of(status) {
            Some(stop) => StopChange::Stopped(StoppedThread::heard_of(tid), stop),
            None => StopChange::Ended(ThreadEnd { tid, status, usage: usage_of(&usage) }),
        }),
    };
    Ok((waited, status))
}

/// What has happened to a child, traced or not.
#[derive(Debug)]
pub(crate) enum AnyChange {
    /// It stands still: at a tracer's stop, or stopped by job control.
    Stopped(i32, PtraceStop),
    /// It was stopped by job control, and goes on.
    GoesOn(i32),
    /// It has ended.
    Ended(ThreadEnd),
    /// Nothing: a signal has ended the waiting.
    Nothing,
    /// There is no child left.
    Nobody,
}

/// Waits for a change of any child, of those that are not traced, too.
pub(crate) fn wait_for_any() -> io::Result<AnyChange> {
    let (waited, status) = wait_status(-1, libc::WUNTRACED | libc::WCONTINUED)?;
    Ok(match waited {
        Waited::Change(change) if libc::WIFCONTINUED(status) => AnyChange::GoesOn(change.tid()),
        Waited::Change(StopChange::Stopped(thread, stop)) => {
            let tid = thread.tid();
            // Whoever is not traced needs nobody to go on.
            thread.killed();
            AnyChange::Stopped(tid, stop)
        }
        Waited::Change(StopChange::Ended(end)) => AnyChange::Ended(end),
        Waited::Nothing => AnyChange::Nothing,
        Waited::Nobody => AnyChange::Nobody,
    })
}

/// What `wait4` says that a process and its reaped children used (getrusage(2)).
fn usage_of(raw: &libc::rusage) -> Usage {
    let micros = |time: libc::timeval| {
        Micros(time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs())
    };
    Usage {
        user: micros(raw.ru_utime),
        system: micros(raw.ru_stime),
        max_rss: ByteUnits(raw.ru_maxrss.unsigned_abs() * 1024),
    }
}
