//! Drives perf: `perf record` beside the command, then `perf script`.
//!
//! perf does not start the command: it would change PATH for it (perf puts its own directory in),
//! and end it at Ctrl-C, which a command may want to survive. It is attached to becalm itself
//! instead, before the recorder is forked: events are inherited by whatever is started from then
//! on (`perf_event_attr.inherit`), so the command is sampled from its first instruction, and perf
//! is no part of the recording. Where the kernel allows it, perf samples the whole machine (`-a`):
//! a process's own timer starts anew with each process, and never fires in those that live for
//! less than a period. What is not of the command is left out by process id.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use launch::Leftovers;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal, setsid};
use schemars::JsonSchema;
use serde::Serialize;
use tempfile::TempDir;

use super::allowed::Allowed;
use super::text::{self, PerfSample};

/// perf opens its events within a second even on a machine that is busy.
const START: Duration = Duration::from_secs(30);

/// What perf still has to write when it is asked to end.
const STOP: Duration = Duration::from_secs(60);

/// perf writes no more than this: 8 KiB of stack for each sample fill a disk quickly.
const MAX_SIZE: &str = "4G";

/// How many bytes of process ids `perf script --pid` is given: an argument has 128 KiB at most.
const PIDS: usize = 100 << 10;

/// Which processes are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All of the machine, by a timer for each CPU: short processes are hit as often as the time
    /// they take is worth.
    Machine,
    /// The command's, by a timer for each thread: none is hit in its first period.
    Command,
}

/// How samples are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SamplingMethod {
    /// Of which processes.
    pub scope: Scope,
    /// `cpu-clock`, or `cycles` where the processor counts them.
    pub event: &'static str,
    /// Whether the kernel's functions are seen, too.
    pub kernel: bool,
    /// Samples for each second on a CPU.
    pub frequency_hz: u32,
    /// How many bytes of each stack are copied to be unwound.
    pub stack_bytes: u32,
}

impl SamplingMethod {
    /// The best that is allowed; none where nothing is.
    ///
    /// Cycles are worth so much time as the CPU's speed makes them, which can be told only where
    /// all processes are sampled alike; elsewhere the timer's nanoseconds are what they are.
    /// `timer` asks for the timer everywhere.
    pub fn best(allowed: &Allowed, wanted: SamplingOptions) -> Option<SamplingMethod> {
        let scope = if allowed.all { Scope::Machine } else { Scope::Command };
        let cycles = allowed.cycles && scope == Scope::Machine && !wanted.timer;
        let event = if cycles { "cycles" } else { "cpu-clock" };
        let SamplingOptions { frequency_hz, stack_bytes, .. } = wanted;
        let how =
            SamplingMethod { scope, event, kernel: allowed.kernel, frequency_hz, stack_bytes };
        allowed.own.then_some(how)
    }

    /// The time between two samples, in nanoseconds.
    pub fn period_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.frequency_hz.max(1))
    }
}

/// What is asked of the samples.
#[derive(Clone, Copy, Debug)]
pub struct SamplingOptions {
    /// Samples for each second on a CPU.
    pub frequency_hz: u32,
    /// How many bytes of each stack are copied to be unwound.
    pub stack_bytes: u32,
    /// By a timer, even where the processor counts cycles.
    pub timer: bool,
}

/// What went wrong with perf.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// There is none.
    #[error("perf is not installed (not found in PATH)")]
    NotFound,
    /// It cannot be executed, or a file for it cannot be made.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        error: io::Error,
    },
    /// It ended where it should not have.
    #[error("{what} {how}{said}")]
    Ended {
        /// `perf record` or `perf script`.
        what: &'static str,
        /// How it ended.
        how: String,
        /// What it said, after `: `.
        said: String,
    },
    /// It does not answer.
    #[error("perf {0}")]
    Hangs(&'static str),
}

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> PerfError {
    move |error| PerfError::System { what: what.into(), error }
}

/// The perf that a shell would start: the first executable file of that name in PATH.
///
/// # Errors
/// [`PerfError::NotFound`].
pub fn find() -> Result<PathBuf, PerfError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|directory| directory.join("perf"));
    let executable = |file: &PathBuf| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    files.find(executable).ok_or(PerfError::NotFound)
}

/// What perf writes to, locked as long as it is in use.
#[derive(Debug)]
struct SampleDirectory {
    directory: TempDir,
    _used: File,
}

impl SampleDirectory {
    fn new() -> io::Result<SampleDirectory> {
        const NAME: &str = "becalm-perf-";
        // Between the making and the lock.
        const MOMENT: Duration = Duration::from_secs(60);
        let directory = launch::temporary_directory(NAME)?;
        if let Some(place) = directory.path().parent() {
            Leftovers::Directories.clear(place, NAME, MOMENT);
        }
        let used = File::open(directory.path())?;
        flock(&used, FlockOperation::LockShared)?;
        Ok(SampleDirectory { directory, _used: used })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A `perf record` that samples this process and all that it starts.
#[derive(Debug)]
pub struct Sampler {
    perf: PathBuf,
    how: SamplingMethod,
    running: Running,
    directory: SampleDirectory,
    /// Kept open, so that perf never reads an end of file from it.
    control: File,
}

/// What a `perf record` has left.
#[derive(Debug)]
pub struct PerfSamples {
    /// How they were taken.
    pub how: SamplingMethod,
    perf: PathBuf,
    directory: SampleDirectory,
}

/// A perf that is ended with its owner.
#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Sampler {
    /// Starts perf, and returns once it samples.
    ///
    /// # Errors
    /// [`PerfError`]: then nothing runs.
    pub fn start(perf: &Path, how: SamplingMethod) -> Result<Sampler, PerfError> {
        let directory = SampleDirectory::new().map_err(system("a directory for samples"))?;
        let control = fifo(&directory.path().join("control"))?;
        let mut answer = fifo(&directory.path().join("answer"))?;
        let said =
            File::create(directory.path().join("said")).map_err(system("a file for perf"))?;
        let mut command = record(perf, &how, directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        // SAFETY: makes plain system calls only, between fork and exec.
        unsafe { command.pre_exec(apart) };
        let running = Running(command.spawn().map_err(system(perf.display().to_string()))?);
        let mut sampler = Sampler { perf: perf.to_owned(), how, running, directory, control };
        sampler.enable(&mut answer)?;
        Ok(sampler)
    }

    /// Has perf begin, and waits until it says so.
    fn enable(&mut self, answer: &mut File) -> Result<(), PerfError> {
        self.control.write_all(b"enable\n").map_err(system("perf's control"))?;
        let until = Instant::now() + START;
        while !readable(answer, Duration::from_millis(20)) {
            if let Some(how) = self.running.0.try_wait().map_err(system("perf record"))? {
                return Err(ended("perf record", how, self.directory.path()));
            }
            if Instant::now() > until {
                return Err(PerfError::Hangs("does not begin to sample"));
            }
        }
        let mut word = [0; 5];
        answer.read(&mut word).map_err(system("perf's answer")).map(drop)
    }

    /// Has perf end. What it wrote may be of use even where it ended too early, which the error
    /// then tells.
    pub fn stop(mut self) -> (PerfSamples, Option<PerfError>) {
        let early = match self.running.0.try_wait() {
            Ok(Some(how)) => Some(ended("perf record", how, self.directory.path())),
            _ => self.end().err(),
        };
        (PerfSamples { how: self.how, perf: self.perf, directory: self.directory }, early)
    }

    /// As Ctrl-C would: perf then writes what it still has.
    fn end(&mut self) -> Result<(), PerfError> {
        // If it has ended, that is seen below.
        let _ = kill_process(Pid::from_child(&self.running.0), Signal::INT);
        let until = Instant::now() + STOP;
        while Instant::now() < until {
            match self.running.0.try_wait().map_err(system("perf record"))? {
                Some(how) if how.success() || how.signal() == Some(libc::SIGINT) => return Ok(()),
                Some(how) => return Err(ended("perf record", how, self.directory.path())),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        Err(PerfError::Hangs("does not end"))
    }
}

impl PerfSamples {
    /// Hands each sample of these processes to `each`; returns how many samples there were.
    ///
    /// # Errors
    /// [`PerfError`], if perf cannot read what it has written; some samples may have come by then.
    pub fn read(&self, pids: &[u32], each: &mut dyn FnMut(PerfSample)) -> Result<u64, PerfError> {
        let said = File::create(self.directory.path().join("said")).map_err(system("a file"))?;
        let mut command = script(&self.perf, self.directory.path(), pids);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said);
        let mut running = Running(command.spawn().map_err(system("perf script"))?);
        let Some(out) = running.0.stdout.take() else { return Ok(0) };
        let read = text::read(BufReader::with_capacity(1 << 18, out), each);
        let count = read.map_err(system("what perf script says"))?;
        let how = running.0.wait().map_err(system("perf script"))?;
        match how.success() {
            true => Ok(count),
            false => Err(ended("perf script", how, self.directory.path())),
        }
    }
}

/// perf as it is without anybody's settings: no ~/.perfconfig, no network (debuginfod), no words
/// of another language.
fn plain(perf: &Path) -> Command {
    let mut command = Command::new(perf);
    command.env("PERF_CONFIG", "/dev/null").env("LC_ALL", "C").env("PERF_PAGER", "cat");
    command.env_remove("DEBUGINFOD_URLS");
    command
}

fn record(perf: &Path, how: &SamplingMethod, directory: &Path) -> Command {
    let mut command = plain(perf);
    // Without -N perf would copy every program and library into ~/.debug, for an archive.
    command.args(["record", "-q", "-N", "-B", "-k", "CLOCK_MONOTONIC", "--max-size", MAX_SIZE]);
    let modifier = if how.kernel { "" } else { ":u" };
    command.args(["-e", &format!("{}{modifier}", how.event)]);
    command.args(["-F", &how.frequency_hz.to_string()]);
    command.args(["--call-graph", &format!("dwarf,{}", how.stack_bytes)]);
    match how.scope {
        Scope::Machine => command.arg("-a"),
        Scope::Command => command.args(["-p", &std::process::id().to_string()]),
    };
    // Nothing is sampled until perf is told to, and it says that it has heard.
    let control = format!("fifo:{0}/control,{0}/answer", directory.display());
    command.args(["-D", "-1", "--control", &control]);
    command.arg("-o").arg(directory.join("data"));
    command
}

fn script(perf: &Path, directory: &Path, pids: &[u32]) -> Command {
    let mut command = plain(perf);
    // Functions that were inlined cost an addr2line for each address.
    command.args(["script", "-F", "pid,tid,time,period,ip,sym,dso", "--ns", "--no-inline"]);
    command.args(["--max-stack", &text::FRAMES.to_string()]);
    let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    if !list.is_empty() && list.len() < PIDS {
        command.args(["--pid", &list]);
    }
    command.arg("-i").arg(directory.join("data"));
    command
}

/// In perf, before it is executed: a session of its own, so that Ctrl-C is for the command only;
/// and it ends with becalm.
fn apart() -> io::Result<()> {
    setsid()?;
    Ok(set_parent_process_death_signal(Some(Signal::TERM))?)
}

/// A named pipe, open at both ends.
fn fifo(path: &Path) -> Result<File, PerfError> {
    let what = || system(path.display().to_string());
    let made = mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR);
    made.map_err(io::Error::from).map_err(what())?;
    File::options().read(true).write(true).open(path).map_err(what())
}

fn readable(file: &File, within: Duration) -> bool {
    let mut ready = [PollFd::new(file, PollFlags::IN)];
    let Ok(within) = Timespec::try_from(within) else { return false };
    matches!(poll(&mut ready, Some(&within)), Ok(1)) && ready[0].revents().contains(PollFlags::IN)
}

fn ended(what: &'static str, how: std::process::ExitStatus, directory: &Path) -> PerfError {
    let how = match (how.code(), how.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (_, Some(signal)) => format!("was killed by signal {signal}"),
        _ => "ended".to_owned(),
    };
    PerfError::Ended { what, how, said: said(directory) }
}

/// The first sentence of what perf said on standard error.
fn said(directory: &Path) -> String {
    let mut text = String::new();
    let file = File::open(directory.join("said"));
    let _ = file.and_then(|file| file.take(4096).read_to_string(&mut text));
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && *line != "Error:");
    first.map_or_else(String::new, |line| format!(": {line}"))
}
