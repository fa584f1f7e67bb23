//! A probe that runs in a forked child, so that a crash, a hang or a killing filter is an answer.

use std::io::{PipeReader, Read, Write, pipe};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, set_parent_process_death_signal,
    setpgid, waitpid,
};

use crate::sys;

/// How long a child may take. The slowest probe takes milliseconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(5);

/// What stopped a probe, as its child says it: made without memory allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeStop {
    /// A call returned this error number.
    Error { call: &'static str, errno: i32 },
    /// A call ended the process that made it, by this signal.
    Killed { call: &'static str, signal: i32 },
}

impl ProbeStop {
    /// The failure of `call`, whose error number the C library has just set.
    pub fn last(call: &'static str) -> ProbeStop {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        ProbeStop::Error { call, errno }
    }
}

/// Why a child brought no answer that the probe hoped for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeFailure {
    /// A call was refused.
    Error { call: String, errno: i32 },
    /// A call, or the child itself, was ended by a signal.
    Killed { call: String, signal: i32 },
    /// Nothing came within the time limit.
    Hung,
    /// The child ended without a word.
    Silent,
}

impl ProbeFailure {
    /// The call that failed, in words.
    pub fn call(&self) -> &str {
        match self {
            ProbeFailure::Error { call, .. } | ProbeFailure::Killed { call, .. } => call,
            ProbeFailure::Hung | ProbeFailure::Silent => "the probe",
        }
    }

    /// The error number, if a call returned one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            ProbeFailure::Error { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    fn here(call: &str) -> ProbeFailure {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        ProbeFailure::Error { call: call.to_owned(), errno }
    }
}

/// Runs `probe` in a child. It must make system calls only: no allocation, no locks, no panic,
/// because the parent may have had more threads than the one that is copied.
pub(crate) fn ask(probe: impl FnOnce() -> Result<u64, ProbeStop>) -> Result<u64, ProbeFailure> {
    ask_within(LIMIT, probe)
}

fn ask_within(
    limit: Duration,
    probe: impl FnOnce() -> Result<u64, ProbeStop>,
) -> Result<u64, ProbeFailure> {
    let (mut reader, mut writer) = pipe().map_err(|_| ProbeFailure::here("pipe"))?;
    let child = sys::fork(|| {
        // The group lets the parent end the child's own children too; the signal ends the child
        // if becalm is ended. Without them the probe is still an answer.
        let _ = setpgid(None, None);
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        u8::from(writer.write_all(&encode(probe())).is_err())
    });
    let child = child.map_err(|_| ProbeFailure::here("fork"))?;
    drop(writer);
    let reply = listen(&mut reader, limit);
    if reply == Some(Vec::new()) {
        return Err(bury(child));
    }
    // It has not been waited for, and leads its group, or has not come to that yet.
    let _ = kill_process_group(child, Signal::KILL);
    let _ = kill_process(child, Signal::KILL);
    bury(child);
    decode(&reply.ok_or(ProbeFailure::Hung)?)
}

/// What the child wrote: all of it, since a short write to a pipe is one piece. Empty if it
/// ended first, none if the time ran out.
fn listen(reader: &mut PipeReader, limit: Duration) -> Option<Vec<u8>> {
    let limit = Timespec::try_from(limit).ok()?;
    if !matches!(poll(&mut [PollFd::new(reader, PollFlags::IN)], Some(&limit)), Ok(1)) {
        return None;
    }
    let mut reply = [0; MESSAGE];
    let length = reader.read(&mut reply).unwrap_or(0);
    Some(reply[..length].to_vec())
}

/// Waits for a child that has ended or been killed, and says how it ended.
fn bury(child: Pid) -> ProbeFailure {
    let status = loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            Ok(Some((_, status))) => break status,
            _ => return ProbeFailure::Silent,
        }
    };
    match status.terminating_signal() {
        Some(signal) => ProbeFailure::Killed { call: "the probe".to_owned(), signal },
        None => ProbeFailure::Silent,
    }
}

/// A reply: one byte for the kind, eight for the number, the rest the call's name.
const MESSAGE: usize = 128;
const WORKS: u8 = 0;
const ERROR: u8 = 1;
const KILLED: u8 = 2;

fn encode(answer: Result<u64, ProbeStop>) -> [u8; MESSAGE] {
    let (kind, number, call) = match answer {
        Ok(value) => (WORKS, value, ""),
        Err(ProbeStop::Error { call, errno }) => (ERROR, errno as u64, call),
        Err(ProbeStop::Killed { call, signal }) => (KILLED, signal as u64, call),
    };
    let mut message = [0; MESSAGE];
    message[0] = kind;
    message[1..9].copy_from_slice(&number.to_le_bytes());
    for (to, from) in message[9..].iter_mut().zip(call.bytes()) {
        *to = from;
    }
    message
}

fn decode(message: &[u8]) -> Result<u64, ProbeFailure> {
    let (Some((kind, rest)), true) = (message.split_first(), message.len() == MESSAGE) else {
        return Err(ProbeFailure::Silent);
    };
    let (number, call) = rest.split_at(8);
    let number = number.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let call = String::from_utf8_lossy(call).trim_end_matches('\0').to_owned();
    match *kind {
        WORKS => Ok(number),
        ERROR => Err(ProbeFailure::Error { call, errno: number as i32 }),
        KILLED => Err(ProbeFailure::Killed { call, signal: number as i32 }),
        _ => Err(ProbeFailure::Silent),
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
            ask(|| Err(ProbeStop::Error { call: "unshare(CLONE_NEWUSER)", errno: libc::ENOSPC })),
            Err(ProbeFailure::Error { call: "unshare(CLONE_NEWUSER)".into(), errno: libc::ENOSPC })
        );
    }

    #[test]
    fn a_child_that_crashes_is_an_answer() {
        let crash = || std::process::abort();
        let crashed = ProbeFailure::Killed { call: "the probe".into(), signal: libc::SIGABRT };
        assert_eq!(ask(crash), Err(crashed));
        assert_eq!(ask(|| sys::end(0)), Err(ProbeFailure::Silent));
    }

    #[test]
    fn a_child_that_hangs_is_ended_with_all_its_children_and_is_an_answer() {
        let began = Instant::now();
        let (mut left, right) = pipe().unwrap();
        let hang = || loop {
            // A fork copies the pipe's end into a grandchild; both wait for ever.
            let _ = sys::fork(|| {
                loop {
                    rustix::event::pause();
                }
            });
            rustix::event::pause();
        };
        assert_eq!(ask_within(Duration::from_millis(200), hang), Err(ProbeFailure::Hung));
        drop(right);
        // The end of the pipe that the grandchild held is closed: it is dead.
        assert_eq!(left.read(&mut [0]).unwrap(), 0);
        assert!(began.elapsed() < Duration::from_secs(100));
    }
}
