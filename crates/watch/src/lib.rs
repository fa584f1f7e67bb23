#![doc = include_str!("../README.md")]
//!
//! becalm becomes two processes. The *front* is the one that the user started: it passes
//! signals on, stops when the command stops and ends as the command ends. The *tracer*, its
//! child, starts the command, follows it and all that it starts, and writes the recording; it
//! outlives the front where the command leaves a daemon behind.
//!
//! | file | what it holds |
//! |---|---|
//! | `session`, `message` | the front, and what the tracer tells it |
//! | `boot` | the tracer process up to the command's exec |
//! | `attach` | joining processes that run already, and leaving them |
//! | `ptrace` | ptrace(2); a stopped thread as a value that is resumed once |
//! | `tracer` | the loop: what happened to which thread, and how it goes on |
//! | `table` | which threads and processes there are; `task`: what is known of each |
//! | `shape` | what each call's arguments mean; `filter`: which calls stop |
//! | `reader`, `decode` | which call a thread is at; its paths, descriptors, flags |
//! | `effects` | what a call changed: descriptors, directories, mappings |
//! | `files`, `space`, `spans` | descriptors and directories; mappings |
//! | `directory_names` | what descriptors stand for, where nobody sees them closed |
//! | `unwatched_reads` | what can be said of reads that do not stop |
//! | `faults` | page faults of processes that map much of a file |
//! | `fault_alarm` | a thread that ends the tracer's wait where page faults are to be taken in |
//! | `present` | which pages of a process are there |
//! | `program` | what a process becomes at an exec |
//! | `call_tap` | calls that an eBPF program reports, where it is allowed |
//! | `inject`, `clock` | delays after calls |
//! | `signals` | signals, as if there were no tracer |
//! | `until`, `start_watch` | when a start is over: what was asked for, and whether it is |
//! | `mpi_init` | MPI_Init's return, caught |
//! | `observer`, `observers` | somebody who looks into processes at their forks |
//! | `log` | what goes into the recording |
//! | `mounts` | what a process sees mounted, where that changes |
//! | `bind` | recorder and command on one CPU while only one of them can run |
//! | `ending` | a process that nothing is recorded of, looked at where it ends |
//! | `dependencies` | what one process depended on, up to the first call that cannot be repeated |
//! | `memory`, `arch`, `host` | a process's memory, the processor, the machine |

mod arch;
mod arguments;
mod attach;
mod bind;
mod boot;
mod call_tap;
mod clock;
mod decode;
pub mod dependencies;
mod directory_names;
mod effects;
mod ending;
mod fault_alarm;
mod faults;
mod files;
mod filter;
mod host;
mod inject;
mod log;
mod memory;
mod message;
mod mounts;
mod mpi_init;
mod observer;
mod observers;
mod present;
mod program;
mod ptrace;
mod reader;
mod session;
mod shape;
mod signals;
mod space;
mod spans;
mod start_watch;
mod table;
mod task;
mod tracer;
mod until;
mod unwatched_reads;

use std::fs::File;

use session::Instruments;

pub use attach::{AttachError, AttachOptions, NextExec, Watched, attach};
pub use ending::{AtEnd, ProgramAtExec, processor, to_end, waited};
pub use inject::{Deadlines, DelayPolicy, ReturnedCall};
pub use log::ReadImage;
pub use observer::{Executed, Observer, ScriptFrame, Stopped, TOLD};
pub use session::{Finished, Session};
pub use until::{GlobPattern, QUIET, Until, UntilError};

/// What a recording of starts alone has besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedStarts {
    /// Nothing: no open of a file is stopped at.
    Alone,
    /// Opens of files of locales. Every open is stopped at for that, and a program that speaks a
    /// language opens more of them than it stops otherwise.
    AndLocales,
}

/// Which system calls are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedCalls {
    /// Every one.
    All,
    /// strace's `%file,%desc,%process`: reads, writes and closes, too.
    WithData,
    /// Those that are metadata operations, or make, end or wait for processes.
    MetadataOnly,
}

/// How to record.
#[derive(Clone, Copy)]
pub struct RecorderOptions {
    /// Which calls.
    pub calls: WatchedCalls,
    /// Keep the recorder and the command on one CPU while only one thread can run: faster, and
    /// not to be seen by the command.
    pub bind: bool,
    /// Have an eBPF program report calls, where that is allowed, instead of stopping at them.
    pub tap: bool,
    /// Watch page faults on mapped files, where the kernel allows it.
    pub page_faults: bool,
    /// Read calls from registers, as on a kernel before 5.3, which does not say what they are.
    pub old_kernel: bool,
    /// Reads what a mapped ELF file says of its search; called after the run.
    pub read_image: ReadImage,
}

impl Default for RecorderOptions {
    /// The calls that becalm counts, seen in the quickest way; ELF files are not read.
    fn default() -> RecorderOptions {
        RecorderOptions {
            calls: WatchedCalls::WithData,
            bind: true,
            tap: true,
            page_faults: true,
            old_kernel: false,
            read_image: |_| None,
        }
    }
}

/// Why a command could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// The command did not start.
    #[error("{why}")]
    CannotStart {
        /// The status that env(1) gives for it.
        status: u8,
        /// What is wrong with it.
        why: String,
    },
    /// becalm itself is traced, and a process has one tracer only.
    #[error(
        "becalm is itself traced by process {tracer}{name}, and a process can have only one \
         tracer: run becalm outside of it"
    )]
    Traced {
        /// The tracer's process id.
        tracer: i32,
        /// Its name, in brackets.
        name: String,
    },
    /// What /proc tells of processes would be told of others.
    #[error("{OTHER_PROC}")]
    OtherProc,
    /// ptrace is refused.
    #[error("ptrace is refused ({error}): {reason}; `becalm doctor` says more")]
    Forbidden {
        /// The error of PTRACE_SEIZE.
        error: std::io::Error,
        /// What forbids it, and what to do.
        reason: &'static str,
    },
    /// Fork, a pipe or the like failed.
    #[error("cannot start a recorder: {0}")]
    System(#[from] std::io::Error),
    /// The recorder was killed, and with it the command.
    #[error("the recorder {how}, and the command with it; the recording ends there")]
    Died {
        /// How it ended.
        how: String,
    },
    /// The recorder was killed after it had let go of the command.
    #[error(
        "the recorder {how}; the command, which it had let go of, runs on, and nobody waits for it"
    )]
    DiedAfterLettingGo {
        /// How it ended.
        how: String,
    },
}

/// That /proc is another PID namespace's, and what to do.
pub(crate) const OTHER_PROC: &str = "/proc is another PID namespace's, where process ids name other processes: mount this \
     one's own there (unshare --mount-proc; mount -t proc proc /proc), or start becalm outside of the namespace";

impl RecorderError {
    /// The exit status of becalm for it.
    pub fn exit_status(&self) -> u8 {
        match self {
            RecorderError::CannotStart { status, .. } => *status,
            _ => 125,
        }
    }
}

/// Starts a command and records it to `file`, which is emptied once the command has started.
///
/// This forks and must be called while the process has one thread.
///
/// # Errors
/// [`RecorderError`]: then the command did not run, and `file` is as it was.
pub fn record(
    command: &launch::Command,
    file: File,
    options: &RecorderOptions,
) -> Result<Session, RecorderError> {
    session::start(command, file, options, Instruments::default())
}

/// The same, and delays threads after their calls as `delays` says, which lives in the recorder's
/// process from then on.
///
/// Of calls on descriptors only those that are metadata are delayed (a directory's listing);
/// reads, writes and mappings never are.
///
/// # Errors
/// As [`record`].
pub fn record_delayed(
    command: &launch::Command,
    file: File,
    options: &RecorderOptions,
    delays: Box<dyn DelayPolicy>,
) -> Result<Session, RecorderError> {
    let instruments = Instruments { delays: Some(delays), ..Instruments::default() };
    session::start(command, file, options, instruments)
}

/// As [`record`], and `observer` looks into processes at their forks and execs. It lives in the
/// recorder's process from then on.
///
/// # Errors
/// As [`record`].
pub fn record_observed(
    command: &launch::Command,
    file: File,
    options: &RecorderOptions,
    observer: Box<dyn Observer>,
) -> Result<Session, RecorderError> {
    let instruments = Instruments { observer: Some(observer), ..Instruments::default() };
    session::start(command, file, options, instruments)
}

/// The same, of a command's start alone: it is let go of where the first of `until` comes.
///
/// Every call stops until then, as a filter could not be taken away again.
///
/// # Errors
/// As [`record`].
pub fn record_until(
    command: &launch::Command,
    file: File,
    options: &RecorderOptions,
    observer: Box<dyn Observer>,
    until: Vec<Until>,
) -> Result<Session, RecorderError> {
    let instruments = Instruments { observer: Some(observer), until, ..Instruments::default() };
    session::start(command, file, options, instruments)
}

/// The same, recording only what starts processes and when the loader is done with them: the
/// command's other calls run at full speed, whatever `options` says of them.
///
/// # Errors
/// As [`record`].
pub fn record_starts(
    command: &launch::Command,
    file: File,
    options: &RecorderOptions,
    observer: Box<dyn Observer>,
    starts: RecordedStarts,
) -> Result<Session, RecorderError> {
    let instruments =
        Instruments { observer: Some(observer), starts: Some(starts), ..Instruments::default() };
    session::start(command, file, options, instruments)
}
