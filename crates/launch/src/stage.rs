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
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::capture::Captured;
use crate::spawn::c_string;
use crate::stop::Stop;
use crate::{Ended, fork, inherited};

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
    /// The file that standard input reads.
    pub input: PathBuf,
    /// After how long all is ended.
    pub timeout: Option<Duration>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Played<T> {
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
        Stage { environment: Vec::new(), input: "/dev/null".into(), timeout: None }
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
    ) -> Result<Played<T>, StageError> {
        let input = File::open(&self.input)
            .map_err(|error| StageError::Input { path: self.input.clone(), error })?;
        let variables = self.variables()?;
        let (result, to_result) = io::pipe()?;
        let (stdout, to_stdout) = io::pipe()?;
        let (stderr, to_stderr) = io::pipe()?;
        let stop = Stop::wait_for()?;
        let parent = std::process::id();
        // SAFETY: the caller promises that there is one thread.
        let pid = unsafe { fork() }?;
        if pid == 0 {
            let streams = [input.into(), to_stdout.into(), to_stderr.into()];
            enter(parent, streams, &variables, &stop);
            // A panic must not unwind into what the parent would have done next.
            let act = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
            let sent = act.is_ok_and(|result| send(to_result, &result).is_ok());
            // SAFETY: ends the process without running what the parent prepared for its own end.
            unsafe { libc::_exit(if sent { 0 } else { 125 }) };
        }
        drop((to_result, to_stdout, to_stderr));
        let streams = [result, stdout, stderr].map(|pipe| Stream::new(OwnedFd::from(pipe)));
        let audience = Audience { stage: Process { pid, reaped: None }, streams, stop };
        audience.watch(self.timeout)
    }

    /// The variables as C has them.
    fn variables(&self) -> io::Result<Vec<(CString, CString)>> {
        let c = |text: &OsString| c_string(text.as_bytes());
        self.environment.iter().map(|(name, value)| Ok((c(name)?, c(value)?))).collect()
    }
}

/// Makes the calling process, a child of `parent`, the stage.
fn enter(parent: u32, streams: [OwnedFd; 3], variables: &[(CString, CString)], stop: &Stop) {
    // SAFETY: plain system calls on descriptors that live on; this process has one thread, so its
    // environment is nobody else's.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() as u32 != parent {
            libc::_exit(125);
        }
        for (fd, stream) in (0..).zip(&streams) {
            libc::dup2(stream.as_raw_fd(), fd);
        }
        for (name, value) in variables {
            // Not std's set_var: its lock stays locked for ever where another thread of a test
            // program held it at the fork.
            if libc::setenv(name.as_ptr(), value.as_ptr(), 1) != 0 {
                libc::_exit(125);
            }
        }
    }
    inherited::has_standard_streams();
    stop.forget();
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
struct Process {
    pid: i32,
    reaped: Option<Ended>,
}

impl Process {
    /// How it ended, if it has.
    fn ended(&mut self) -> Option<Ended> {
        self.reap(libc::WNOHANG)
    }

    fn reap(&mut self, flags: i32) -> Option<Ended> {
        let mut status = 0;
        // SAFETY: waits for a child of this process; the status outlives the call.
        if self.reaped.is_none() && unsafe { libc::waitpid(self.pid, &mut status, flags) } > 0 {
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
            // SAFETY: asks whether there is a process of the group.
            if self.reaped.is_some() && unsafe { libc::kill(-self.pid, 0) } != 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.signal(libc::SIGKILL);
        self.reap(0);
    }

    /// To the group; to the stage alone if it has not made its group yet.
    fn signal(&self, signal: i32) {
        // SAFETY: signals to a child that is not reaped, or to the group that it left, whose
        // number no new process can get while a member lives.
        unsafe {
            if libc::kill(-self.pid, signal) != 0 && self.reaped.is_none() {
                libc::kill(self.pid, signal);
            }
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
    stage: Process,
    /// What the act returned, its standard output, its standard error.
    streams: [Stream; 3],
    stop: Stop,
}

impl Audience {
    fn watch<T: DeserializeOwned>(
        mut self,
        timeout: Option<Duration>,
    ) -> Result<Played<T>, StageError> {
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

    fn result<T: DeserializeOwned>(mut self) -> Result<Played<T>, StageError> {
        let ended = self.stage.reap(0).unwrap_or(Ended::Exited(125));
        let [result, stdout, stderr] = self.streams;
        let result = result.all.unwrap_or_default();
        let result = serde_json::from_slice(received(&result).unwrap_or_default());
        Ok(Played {
            result: result.map_err(|_| StageError::Died(ended))?,
            left_open: stdout.pipe.is_some() || stderr.pipe.is_some(),
            stdout: stdout.captured,
            stderr: stderr.captured,
        })
    }

    /// Waits until a stream has something, a signal comes or the time is over; says which
    /// streams have.
    fn poll(&self, timeout: Option<Duration>) -> io::Result<[bool; 3]> {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // poll(2) leaves negative descriptors alone.
        let number =
            |stream: &Stream| stream.pipe.as_ref().map_or(-1, |pipe| pipe.as_fd().as_raw_fd());
        let [result, stdout, stderr] = self.streams.each_ref().map(number).map(entry);
        let mut entries = [result, stdout, stderr, entry(self.stop.fd())];
        let millis = |time: Duration| i32::try_from(time.as_millis() + 1).unwrap_or(i32::MAX);
        // SAFETY: the array has four entries and outlives the call.
        let done = unsafe { libc::poll(entries.as_mut_ptr(), 4, timeout.map_or(-1, millis)) };
        let error = io::Error::last_os_error();
        if done < 0 && error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        Ok([0, 1, 2].map(|at| done > 0 && entries[at].revents != 0))
    }
}

impl Drop for Process {
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
