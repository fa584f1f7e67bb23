//! A launcher's child that is about to become its program.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use proc::ProcessStat;

use super::{AttachError, refused, standing};
use crate::clock;
use crate::files::proc_link;
use crate::ptrace::{self, PtraceStop, Resume, StopChange, StoppedThread, TraceError, Waited};

/// How long a launcher may take. Slurm's step daemon waits for what a task prolog leaves behind, and
/// its job's user waits with it.
const LONGEST: Duration = Duration::from_secs(10);

/// How often it is tried: what the program asks for first, its loader's cache, comes some 300 us
/// after the exec.
const PAUSE: Duration = Duration::from_micros(50);

/// The next exec of a process.
///
/// A step daemon's child that has given up root's rights may not be traced by its own user until it
/// has executed a program: the kernel takes it for one with secrets of root's in its memory (dumpable,
/// see ptrace(2)). So it is tried again and again; what it does before that succeeds is missed.
#[derive(Clone)]
pub struct NextExec {
    pid: i32,
    before: Option<RunProgram>,
}

/// The program that a process runs: its file, and where its stack begins, which is elsewhere after
/// every exec. None where it may not be looked into.
#[derive(Clone, PartialEq)]
struct RunProgram {
    file: Vec<u8>,
    stack: u64,
}

impl NextExec {
    /// The one that comes after this call.
    pub fn of(pid: i32) -> NextExec {
        NextExec { pid, before: RunProgram::of(pid) }
    }

    /// Whether it is that process's.
    pub(super) fn is_of(&self, pid: i32) -> bool {
        self.pid == pid
    }

    /// Traces the process from then on; by the thread that calls this. Waits at most ten seconds.
    ///
    /// # Errors
    /// It ends, executes nothing, or may not be traced then either.
    pub(super) fn seize(&self, options: i32) -> Result<Seized, AttachError> {
        clock::sleep_exactly();
        let began = Instant::now();
        loop {
            // No children yet: those that it has before its exec are the launcher's.
            match ptrace::seize(self.pid, libc::PTRACE_O_TRACEEXEC) {
                Ok(()) => break,
                Err(TraceError::Failed { .. }) if began.elapsed() < LONGEST && self.lives() => {
                    sleep(PAUSE);
                }
                Err(error) => return Err(refused(self.pid, error)),
            }
        }
        if self.before.is_none() || RunProgram::of(self.pid) != self.before {
            ptrace::interrupt(self.pid).map_err(|error| refused(self.pid, error))?;
        }
        let stopped = self.stopped(began)?;
        stopped.set_options(options).map_err(|error| refused(self.pid, error))?;
        let has_begun = standing::code_files(self.pid) > 2;
        Ok(Seized { thread: Some(stopped), has_begun })
    }

    /// Its stop: at its exec, or where it was interrupted after that.
    fn stopped(&self, began: Instant) -> Result<StoppedThread, AttachError> {
        let gone = || refused(self.pid, TraceError::Gone);
        while began.elapsed() < LONGEST {
            let waited = ptrace::wait(self.pid, libc::WNOHANG).map_err(AttachError::System)?;
            let goes_on = match waited {
                Waited::Change(StopChange::Stopped(
                    thread,
                    PtraceStop::Exec | PtraceStop::Begin,
                )) => {
                    return Ok(thread);
                }
                Waited::Change(StopChange::Stopped(thread, PtraceStop::Signal(signal))) => {
                    thread.resume(Resume::ToEvent, signal)
                }
                Waited::Change(StopChange::Stopped(thread, PtraceStop::Group(_))) => {
                    thread.listen()
                }
                Waited::Change(StopChange::Stopped(thread, _)) => thread.resume(Resume::ToEvent, 0),
                Waited::Change(StopChange::Ended(_)) | Waited::Nobody => return Err(gone()),
                Waited::Nothing => {
                    sleep(PAUSE);
                    Ok(())
                }
            };
            goes_on.map_err(|error| refused(self.pid, error))?;
        }
        // It is let go of with this thread's end.
        let why = format!("it has executed no program for {} s", LONGEST.as_secs());
        Err(AttachError::refused(self.pid, why))
    }

    fn lives(&self) -> bool {
        ProcessStat::of(self.pid).is_some_and(|stat| stat.state() != b'Z')
    }
}

/// A process that stands still until it is known.
pub(super) struct Seized {
    thread: Option<StoppedThread>,
    /// Whether it has mapped more than its program and the loader by now: becalm came late.
    pub has_begun: bool,
}

impl Seized {
    /// Goes on. It stops again where it was interrupted meanwhile.
    pub fn goes_on(mut self) -> Result<(), io::Error> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        match thread.resume(Resume::ToEvent, 0) {
            Ok(()) | Err(TraceError::Gone) => Ok(()),
            Err(TraceError::Failed { error, .. }) => Err(error),
        }
    }
}

impl Drop for Seized {
    /// The kernel lets go of it with this thread.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.killed();
        }
    }
}

impl RunProgram {
    fn of(pid: i32) -> Option<RunProgram> {
        let file = proc_link(pid, "exe")?;
        Some(RunProgram { file, stack: ProcessStat::of(pid)?.stack()? })
    }
}
