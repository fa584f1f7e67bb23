//! Commands that are run to their end, or talked to, and that never hang a test.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use super::answer;

/// No step of any test takes this long, however loaded the machine is. One that does hangs. Arm machines are
/// emulated (tests/arm), which takes some twenty times as long.
pub const LIMIT: Duration =
    Duration::from_secs(if cfg!(target_arch = "aarch64") { 1000 } else { 100 });

/// A command that has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}

impl Ran {
    /// Its standard output, as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its standard error, as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The exit status; a death by signal fails the test.
    #[track_caller]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{}\n{}", self.status, self.err()))
    }
}

/// Runs a command to its end, with nothing to read.
#[track_caller]
pub fn run(command: &mut Command) -> Ran {
    Live::start_with(command, Stdio::null()).end()
}

/// Runs a command to its end with this to read.
#[track_caller]
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Ran {
    let mut live = Live::start(command);
    let mut pipe = live.input.take().unwrap();
    let input = input.to_vec();
    // From a thread: the command may write more than a pipe holds before it has read all.
    let writer = spawn(move || pipe.write_all(&input));
    let ran = live.end();
    writer.join().unwrap().unwrap();
    ran
}

/// A command under way: its input is ours to write, and its output ours to read by lines.
pub struct Live {
    /// The process; its streams are taken.
    pub child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    errors: Option<JoinHandle<Vec<u8>>>,
}

impl Live {
    /// Starts it.
    pub fn start(command: &mut Command) -> Live {
        Live::start_with(command, Stdio::piped())
    }

    fn start_with(command: &mut Command, input: Stdio) -> Live {
        let command = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut errors = child.stderr.take().unwrap();
        let (send, lines) = channel();
        spawn(move || {
            loop {
                let mut line = Vec::new();
                let got = output.read_until(b'\n', &mut line);
                if matches!(got, Ok(0) | Err(_)) || send.send(line).is_err() {
                    return;
                }
            }
        });
        let errors = spawn(move || {
            let mut bytes = Vec::new();
            errors.read_to_end(&mut bytes).unwrap();
            bytes
        });
        Live { input: child.stdin.take(), child, lines, errors: Some(errors) }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The next line of the output, without its end.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let line = self.lines.recv_timeout(LIMIT);
        let line = line.unwrap_or_else(|error| panic!("no line came: {error}"));
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// Waits until the output ends with `line`.
    #[track_caller]
    pub fn wait_for(&mut self, line: &str) {
        while self.line() != line {}
    }

    /// Whether a line comes within that time.
    pub fn says_anything_within(&mut self, time: Duration) -> bool {
        self.lines.recv_timeout(time).is_ok()
    }

    /// Drops what has been written so far and not been read.
    pub fn forget_lines(&mut self) {
        while self.lines.try_recv().is_ok() {}
    }

    /// Closes the command's input and waits for its end, and for the end of its output.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        drop(self.input.take());
        let deadline = Instant::now() + LIMIT;
        let mut stdout = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => stdout.extend(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => self.hung(&stdout),
            }
        }
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => self.hung(&stdout),
                None => sleep(Duration::from_millis(1)),
            }
        };
        let errors = self.errors.take().unwrap();
        wait_until("standard error is closed", || errors.is_finished());
        let ran = Ran { status, stdout, stderr: errors.join().unwrap() };
        answer::check(&ran.stdout);
        answer::check(&ran.stderr);
        ran
    }

    #[track_caller]
    fn hung(&mut self, stdout: &[u8]) -> ! {
        let _ = self.child.kill();
        panic!("did not end within {LIMIT:?}; it said: {}", String::from_utf8_lossy(stdout))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is so.
#[track_caller]
pub fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes_true_within(LIMIT, is_so), "waited in vain: {what}");
}

/// Whether something comes to be so within that time.
pub fn comes_true_within(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + time;
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(5));
    }
    true
}
