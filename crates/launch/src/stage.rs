//! A process of becalm's own in which a command is run in other surroundings: another
//! environment, nothing to read, output that is captured, no terminal, a time limit.
//!
//! becalm itself must keep its environment, streams and signal mask, and must go on when a
//! command hangs. So it forks; the child, the *stage*, changes what is to be changed, acts (runs
//! and times a command, or records one), and sends back what it found. Its session is its own:
//! all that it starts can be ended together, and no command that runs unattended stops for a
//! terminal that it cannot have.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::capture::Captured;
use crate::child::{FAILED, die_with, forked, wait_for};
use crate::execution::c_string;
use crate::for_another_user::is_for_another_user;
use crate::stop::EndRequests;
use crate::{Ended, inherited, signals};

/// Output that is still open when the stage has ended is waited for this long: a child that the
/// command left behind holds it.
const GRACE: Duration = Duration::from_millis(50);
/// How often it is looked whether the stage has ended, once it has said what it found. Until then
/// it holds the output itself, and may need its time: the mounts of a rehearsal go with it.
const AGAIN: Duration = Duration::from_millis(2);
/// What is asked to end gets this long before it is killed.
const MERCY: Duration = Duration::from_secs(1);

/// The surroundings.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Variables that are set beside the inherited ones.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether of the inherited ones only those stay that are for another user ([`is_for_another_user`]).
    pub for_another_user: bool,
    /// The file that standard input reads.
    pub input: PathBuf,
    /// After how long all is ended.
    pub timeout: Option<Duration>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct StageOutcome<T> {
    /// What the act returned.
    pub result: T,
    /// What came out of standard output.
    pub stdout: Captured,
    /// What came out of standard error.
    pub stderr: Captured,
    /// Whether something that was left behind still held its output open.
    pub left_open: bool,
}

/// Why an act came to no end of its own.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// It took too long. All that it had started was ended.
    #[error("it was not done after {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// becalm was asked to end, by this signal. All that it had started was ended.
    #[error("interrupted")]
    Interrupted(i32),
    /// The stage died.
    #[error("becalm's process for it {}", match .0 {
        Ended::Exited(status) => format!("ended early with status {status}"),
        Ended::Signaled(signal) => format!("was killed by signal {signal}"),
    })]
    Died(Ended),
    /// Its standard input.
    #[error("{}: {error}", .path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Why it cannot be opened.
        error: io::Error,
    },
    /// Fork, a pipe or the like failed.
    #[error("cannot start a process: {0}")]
    System(#[from] io::Error),
}

impl Stage {
    /// The surroundings of becalm itself, with nothing to read.
    pub fn new() -> Stage {
        let input = "/dev/null".into();
        Stage { environment: Vec::new(), for_another_user: false, input, timeout: None }
    }

    /// Acts on the stage, and waits for what comes of it. Whatever the act starts inherits the
    /// stage's surroundings.
    ///
    /// This forks, and the act runs Rust code: call it while the process has one thread.
    ///
    /// # Errors
    /// [`StageError`].
    pub fn play<T: Serialize + DeserializeOwned>(
        &self,
        act: impl FnOnce() -> T,
    ) -> Result<StageOutcome<T>, StageError> {
        let input = File::open(&self.input)
            .map_err(|error| StageError::Input { path: self.input.clone(), error })?;
        let variables = self.variables()?;
        let (result, to_result) = io::pipe()?;
        let (stdout, to_stdout) = io::pipe()?;
        let (stderr, to_stderr) = io::pipe()?;
        let stop = EndRequests::wait_for()?;
        let parent = std::process::id() as i32;
        // This process's own stays until its end.
        let mut act = Some(act);
        let pid = forked(|| {
            let streams = [input.into(), to_stdout.into(), to_stderr.into()];
            if !enter(parent, streams, &variables, &stop) {
                return FAILED;
            }
            let sent = act.take().is_some_and(|act| send(to_result, &act()).is_ok());
            if sent { 0 } else { FAILED }
        })?;
        let streams = [result, stdout, stderr].map(|pipe| Stream::new(OwnedFd::from(pipe)));
        let audience = Audience { stage: StageProcess { pid, reaped: None }, streams, stop };
        audience.watch(self.timeout)
    }

    /// The variables as C has them; what has no value is to go.
    fn variables(&self) -> io::Result<Vec<(CString, Option<CString>)>> {
        let c = |text: &OsString| c_string(text.as_bytes());
        let names = std::env::vars_os().map(|(name, _)| name);
        let goes = names.filter(|name| self.for_another_user && !is_for_another_user(name));
        let gone = goes.map(|name| Ok((c(&name)?, None)));
        let set = self.environment.iter().map(|(name, value)| Ok((c(name)?, Some(c(value)?))));
        gone.chain(set).collect()
    }
}

/// Makes the calling process, a child of `parent`, the stage; whether it can be.
fn enter(
    parent: i32,
    streams: [OwnedFd; 3],
    variables: &[(CString, Option<CString>)],
    stop: &EndRequests,
) -> bool {
    let _ = rustix::process::setsid();
    if !die_with(parent) {
        return false;
    }
    let [stdin, stdout, stderr] = &streams;
    let _ = (dup2_stdin(stdin), dup2_stdout(stdout), dup2_stderr(stderr));
    for (name, value) in variables {
        // Not by std: its lock stays locked for ever where another thread of a test
        // program held it at the fork.
        // SAFETY: this process has one thread, so its environment is nobody else's.
        let failed = unsafe {
            match value {
                Some(value) => libc::setenv(name.as_ptr(), value.as_ptr(), 1),
                None => libc::unsetenv(name.as_ptr()),
            }
        };
        if failed != 0 {
            return false;
        }
    }
    inherited::has_standard_streams();
    stop.forget();
    true
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::new()
    }
}

/// Sends a value, its length first: what the act left running may hold the pipe open, so its end
/// says nothing.
fn send(mut to: io::PipeWriter, value: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(&bytes)
}

/// The value that was sent, once all of it is there.
fn received(bytes: &[u8]) -> Option<&[u8]> {
    let (length, value) = bytes.split_first_chunk()?;
    (value.len() as u64 >= u64::from_le_bytes(*length)).then_some(value)
}

/// The stage's process.
struct StageProcess {
    pid: i32,
    reaped: Option<Ended>,
}

impl StageProcess {
    /// How it ended, if it has.
    fn ended(&mut self) -> Option<Ended> {
        self.reap(libc::WNOHANG)
    }

    fn reap(&mut self, flags: i32) -> Option<Ended> {
        if self.reaped.is_none()
            && let Ok(Some((status, _))) = wait_for(self.pid, flags)
        {
            self.reaped = Some(Ended::from_wait(status));
        }
        self.reaped
    }

    /// Asks all processes of the stage's group to end, and kills those that do not.
    fn end(&mut self) {
        let until = Instant::now() + MERCY;
        self.signal(libc::SIGTERM);
        while Instant::now() < until {
            self.ended();
            // 0 asks whether there is a process of the group.
            if self.reaped.is_some() && signals::send(-self.pid, 0).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.signal(libc::SIGKILL);
        self.reap(0);
    }

    /// To the group; to the stage alone if it has not made its group yet. The child is not reaped,
    /// or its group's number is one that no new process can get while a member lives.
    fn signal(&self, signal: i32) {
        if signals::send(-self.pid, signal).is_err() && self.reaped.is_none() {
            let _ = signals::send(self.pid, signal);
        }
    }
}

/// The reading end of one of the stage's pipes.
struct Stream {
    pipe: Option<File>,
    captured: Captured,
    /// Keep all of it: what the act returned.
    all: Option<Vec<u8>>,
}

impl Stream {
    fn new(pipe: OwnedFd) -> Stream {
        Stream { pipe: Some(pipe.into()), captured: Captured::default(), all: None }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        match pipe.read(buffer) {
            Ok(0) => self.pipe = None,
            Ok(got) => match &mut self.all {
                Some(all) => {
                    all.extend(&buffer[..got]);
                    if received(all).is_some() {
                        self.pipe = None;
                    }
                }
                None => self.captured.take_in(&buffer[..got]),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Whoever waits for the stage.
struct Audience {
    stage: StageProcess,
    /// What the act returned, its standard output, its standard error.
    streams: [Stream; 3],
    stop: EndRequests,
}

impl Audience {
    fn watch<T: DeserializeOwned>(
        mut self,
        timeout: Option<Duration>,
    ) -> Result<StageOutcome<T>, StageError> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut grace = None;
        let mut buffer = vec![0; 64 << 10];
        self.streams[0].all = Some(Vec::new());
        while self.streams.iter().any(|stream| stream.pipe.is_some()) {
            let now = Instant::now();
            let has_said = self.streams[0].pipe.is_none();
            if has_said && grace.is_none() && self.stage.ended().is_some() {
                grace = Some(now + GRACE);
            }
            if grace.is_some_and(|grace| grace <= now) {
                break;
            }
            if let Some(timeout) = timeout.filter(|_| deadline.is_some_and(|end| end <= now)) {
                self.stage.end();
                return Err(StageError::TimedOut(timeout));
            }
            let again = (has_said && grace.is_none()).then(|| now + AGAIN);
            let until = [grace, again, deadline].into_iter().flatten().min();
            let ready = self.poll(until.map(|until| until - now))?;
            if let Some(signal) = self.stop.signal() {
                self.stage.end();
                return Err(StageError::Interrupted(signal));
            }
            for (stream, _) in self.streams.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
                stream.read(&mut buffer)?;
            }
        }
        self.result()
    }

    fn result<T: DeserializeOwned>(mut self) -> Result<StageOutcome<T>, StageError> {
        let ended = self.stage.reap(0).unwrap_or(Ended::Exited(125));
        let [result, stdout, stderr] = self.streams;
        let result = result.all.unwrap_or_default();
        let result = serde_json::from_slice(received(&result).unwrap_or_default());
        Ok(StageOutcome {
            result: result.map_err(|_| StageError::Died(ended))?,
            left_open: stdout.pipe.is_some() || stderr.pipe.is_some(),
            stdout: stdout.captured,
            stderr: stderr.captured,
        })
    }

    /// Waits until a stream has something, a signal comes or the time is over; says which
    /// streams have.
    fn poll(&self, timeout: Option<Duration>) -> io::Result<[bool; 3]> {
        let pipes = self.streams.iter().filter_map(|stream| stream.pipe.as_ref());
        let mut entries: Vec<_> = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        entries.push(PollFd::new(&self.stop, PollFlags::IN));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut entries, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok([false; 3]),
            Err(error) => return Err(error.into()),
        }
        let mut ready = entries.iter().map(|entry| !entry.revents().is_empty());
        let is_ready = |stream: &Stream| stream.pipe.is_some() && ready.next() == Some(true);
        Ok(self.streams.each_ref().map(is_ready))
    }
}

impl Drop for StageProcess {
    /// Whatever went wrong: nothing is left running and no zombie stays.
    fn drop(&mut self) {
        if self.reaped.is_none() {
            self.end();
        }
    }
}

/// Whether a file can be each run's standard input: readable, and from its start again each
/// time, which a pipe is not.
///
/// # Errors
/// Why not.
pub fn check_input(path: &Path) -> io::Result<()> {
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_char_device() {
        return Err(io::Error::other("not a file that each run can read from its start"));
    }
    File::open(path).map(drop)
}
