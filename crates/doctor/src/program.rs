//! What a small program of the system says: all of its output, within a time limit.

use std::io::{self, Read, pipe};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Time enough for a program that prints its version.
const LIMIT: Duration = Duration::from_secs(5);

/// More than any of them says.
const ENOUGH: usize = 1 << 20;

/// Runs `program` and returns what it writes to standard output and standard error.
///
/// # Errors
/// It cannot be started, or says nothing more for five seconds without ending.
pub(crate) fn output(program: &Path, arguments: &[&str]) -> io::Result<String> {
    let (mut reader, writer) = pipe()?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    let said = read_all(&mut reader, LIMIT);
    // It has ended or closed its output, or must be ended.
    let _ = child.kill();
    child.wait()?;
    Ok(String::from_utf8_lossy(&said?).into_owned())
}

fn read_all(reader: &mut (impl Read + AsFd), limit: Duration) -> io::Result<Vec<u8>> {
    let until = Instant::now() + limit;
    let mut said = Vec::new();
    let mut room = [0; 4096];
    while said.len() < ENOUGH {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        if !matches!(poll(&mut [PollFd::new(reader, PollFlags::IN)], Some(&left)), Ok(1)) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match reader.read(&mut room)? {
            0 => break,
            length => said.extend_from_slice(&room[..length]),
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_read() {
        let said = output(Path::new("/bin/sh"), &["-c", "echo out; echo err >&2"]).unwrap();
        assert_eq!(said, "out\nerr\n");
    }

    #[test]
    fn a_program_that_hangs_is_given_up() {
        let (mut reader, _writer) = pipe().unwrap();
        let error = read_all(&mut reader, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
