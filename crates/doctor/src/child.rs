//! A question asked in a forked child, so that a crash, a hang or a killing filter is an answer.

use std::io::{PipeReader, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How long a child may take. The slowest probe takes milliseconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(5);

/// What stopped a probe, as its child says it: made without memory allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A call returned this error number.
    Error { call: &'static str, errno: i32 },
    /// A call ended the process that made it, by this signal.
    Killed { call: &'static str, signal: i32 },
}

impl Stop {
    /// The failure of `call`, whose error number the C library has just set.
    pub fn last(call: &'static str) -> Stop {
        // SAFETY: the address of this thread's errno is always valid.
        Stop::Error { call, errno: unsafe { *libc::__errno_location() } }
    }
}

/// Why a child brought no answer that the probe hoped for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChildFailure {
    /// A call was refused.
    Error { call: String, errno: i32 },
    /// A call, or the child itself, was ended by a signal.
    Killed { call: String, signal: i32 },
    /// Nothing came within the time limit.
    Hung,
    /// The child ended without a word.
    Silent,
}

impl ChildFailure {
    /// The call that failed, in words.
    pub fn call(&self) -> &str {
        match self {
            ChildFailure::Error { call, .. } | ChildFailure::Killed { call, .. } => call,
            ChildFailure::Hung | ChildFailure::Silent => "the probe",
        }
    }

    /// The error number, if a call returned one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            ChildFailure::Error { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    fn here(call: &str) -> ChildFailure {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        ChildFailure::Error { call: call.to_owned(), errno }
    }
}

/// Runs `probe` in a child. It must make system calls only: no allocation, no locks, no panic,
/// because the parent may have had more threads than the one that is copied.
pub(crate) fn ask(probe: impl FnOnce() -> Result<u64, Stop>) -> Result<u64, ChildFailure> {
    ask_within(LIMIT, probe)
}

fn ask_within(
    limit: Duration,
    probe: impl FnOnce() -> Result<u64, Stop>,
) -> Result<u64, ChildFailure> {
    let (mut reader, mut writer) = pipe().map_err(|_| ChildFailure::here("pipe"))?;
    // SAFETY: the child makes system calls only (as `probe` promises) and leaves by _exit.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(ChildFailure::here("fork")),
        0 => {
            // SAFETY: plain system calls. The group lets the parent end the child's own
            // children too; the signal ends the child if becalm is ended.
            unsafe {
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            }
            let done = writer.write_all(&encode(probe()));
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        child => {
            drop(writer);
            let reply = listen(&mut reader, limit);
            if reply == Some(Vec::new()) {
                return Err(bury(child));
            }
            // SAFETY: `child` is a child that has not been waited for, and leads its group.
            unsafe {
                libc::kill(-child, libc::SIGKILL);
                libc::kill(child, libc::SIGKILL);
            }
            bury(child);
            decode(&reply.ok_or(ChildFailure::Hung)?)
        }
    }
}

/// What the child wrote: all of it, since a short write to a pipe is one piece. Empty if it
/// ended first, none if the time ran out.
fn listen(reader: &mut PipeReader, limit: Duration) -> Option<Vec<u8>> {
    let mut ready = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let millis = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `ready` is one valid pollfd.
    if unsafe { libc::poll(&raw mut ready, 1, millis) } <= 0 {
        return None;
    }
    let mut reply = [0; MESSAGE];
    let length = reader.read(&mut reply).unwrap_or(0);
    Some(reply[..length].to_vec())
}

/// Waits for a child that has ended or been killed, and says how it ended.
fn bury(child: libc::pid_t) -> ChildFailure {
    let mut status = 0;
    // SAFETY: `status` is valid for writing.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return ChildFailure::Silent;
        }
    }
    if libc::WIFSIGNALED(status) {
        ChildFailure::Killed { call: "the probe".to_owned(), signal: libc::WTERMSIG(status) }
    } else {
        ChildFailure::Silent
    }
}

/// A reply: one byte for the kind, eight for the number, the rest the call's name.
const MESSAGE: usize = 128;
const WORKS: u8 = 0;
const ERROR: u8 = 1;
const KILLED: u8 = 2;

fn encode(answer: Result<u64, Stop>) -> [u8; MESSAGE] {
    let (kind, number, call) = match answer {
        Ok(value) => (WORKS, value, ""),
        Err(Stop::Error { call, errno }) => (ERROR, errno as u64, call),
        Err(Stop::Killed { call, signal }) => (KILLED, signal as u64, call),
    };
    let mut message = [0; MESSAGE];
    message[0] = kind;
    message[1..9].copy_from_slice(&number.to_le_bytes());
    for (to, from) in message[9..].iter_mut().zip(call.bytes()) {
        *to = from;
    }
    message
}

fn decode(message: &[u8]) -> Result<u64, ChildFailure> {
    let (Some((kind, rest)), true) = (message.split_first(), message.len() == MESSAGE) else {
        return Err(ChildFailure::Silent);
    };
    let (number, call) = rest.split_at(8);
    let number = number.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let call = String::from_utf8_lossy(call).trim_end_matches('\0').to_owned();
    match *kind {
        WORKS => Ok(number),
        ERROR => Err(ChildFailure::Error { call, errno: number as i32 }),
        KILLED => Err(ChildFailure::Killed { call, signal: number as i32 }),
        _ => Err(ChildFailure::Silent),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_value_and_an_error_arrive_as_the_child_gave_them() {
        assert_eq!(ask(|| Ok(u64::MAX - 1)), Ok(u64::MAX - 1));
        assert_eq!(
            ask(|| Err(Stop::Error { call: "unshare(CLONE_NEWUSER)", errno: libc::ENOSPC })),
            Err(ChildFailure::Error { call: "unshare(CLONE_NEWUSER)".into(), errno: libc::ENOSPC })
        );
    }

    #[test]
    fn a_child_that_crashes_is_an_answer() {
        // SAFETY: ends the child by a signal.
        let crash = || unsafe { libc::abort() };
        let crashed = ChildFailure::Killed { call: "the probe".into(), signal: libc::SIGABRT };
        assert_eq!(ask(crash), Err(crashed));
        // SAFETY: ends the child.
        assert_eq!(ask(|| unsafe { libc::_exit(0) }), Err(ChildFailure::Silent));
    }

    #[test]
    fn a_child_that_hangs_is_ended_with_all_its_children_and_is_an_answer() {
        let began = Instant::now();
        let (mut left, right) = pipe().unwrap();
        let hang = || loop {
            // SAFETY: fork copies the pipe's end into a grandchild; both wait for ever.
            unsafe {
                libc::fork();
                libc::pause();
            }
        };
        assert_eq!(ask_within(Duration::from_millis(200), hang), Err(ChildFailure::Hung));
        drop(right);
        // The end of the pipe that the grandchild held is closed: it is dead.
        assert_eq!(left.read(&mut [0]).unwrap(), 0);
        assert!(began.elapsed() < Duration::from_secs(100));
    }
}
