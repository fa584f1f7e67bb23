//! What something that is started prints, line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// What is longer is cut.
const LONGEST: u64 = 8 << 10;
/// More lines are read, but not kept.
const MOST: usize = 1 << 20;
/// Output that something left behind still holds open is waited for this long.
const GRACE: Duration = Duration::from_secs(1);

/// While it lives, what this process starts prints elsewhere, and reads nothing.
pub(super) struct Redirected {
    input: OwnedFd,
    output: OwnedFd,
}

impl Redirected {
    pub(super) fn to(elsewhere: impl AsFd) -> io::Result<Redirected> {
        let null = File::open("/dev/null")?;
        // Neither is inherited: try_clone closes its copy on exec.
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        let redirected = Redirected { input, output };
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(elsewhere)?;
        Ok(redirected)
    }
}

impl Drop for Redirected {
    fn drop(&mut self) {
        let _ = rustix::stdio::dup2_stdin(&self.input);
        let _ = rustix::stdio::dup2_stdout(&self.output);
    }
}

/// What `keep` wants of each line, as an iterator that ends with the output, or where it cannot be
/// read.
pub(super) fn lines<T>(output: impl Read, keep: fn(&[u8]) -> Option<T>) -> impl Iterator<Item = T> {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    let next = move || {
        line.clear();
        let got = output.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        if matches!(got, Ok(0) | Err(_)) {
            return None;
        }
        if line.len() as u64 == LONGEST && line.last() != Some(&b'\n') {
            output.skip_until(b'\n').ok()?;
        }
        Some(keep(&line))
    };
    std::iter::from_fn(next).flatten()
}

/// Lines that a thread reads.
pub(super) struct FollowedLines<T>(Receiver<T>);

/// Begins to read, so that what prints never has to wait.
pub(super) fn follow<T: Send + 'static>(
    output: impl Read + Send + 'static,
    keep: fn(&[u8]) -> Option<T>,
) -> FollowedLines<T> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for (at, line) in lines(output, keep).enumerate() {
            if at < MOST && send.send(line).is_err() {
                return;
            }
        }
    });
    FollowedLines(receive)
}

impl<T> FollowedLines<T> {
    /// All of them, once what prints them has ended, and nothing is redirected any more.
    pub(super) fn all(self) -> Vec<T> {
        let mut lines = Vec::new();
        loop {
            match self.0.recv_timeout(GRACE) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return lines,
            }
        }
    }
}
