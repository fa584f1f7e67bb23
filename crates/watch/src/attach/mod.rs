//! Attaching to processes that run already: they are watched for a while, with all below them, and
//! left as they were.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | from the first request to the recording's end |
//! | `family` | which threads and children a process has |
//! | `standing` | what is known of a process that runs already |
//! | `refusal` | why one cannot be attached to |
//!
//! One thread of becalm's own process traces, and ends when it is over: with it the kernel lets go
//! of all at once, as it would if becalm were killed. The recording is finished after that.

pub(crate) mod family;
mod refusal;
pub(crate) mod standing;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use launch::signals::{self, Disposition};
use recording::{Blind, Header, JoinedRun, Nanos, Writer};

use crate::bind::CpuBinder;
use crate::files::proc_link;
use crate::log::RecordingLog;
use crate::message::Messages;
use crate::observers::Observers;
use crate::ptrace::{self, CallSource, TraceError};
use crate::reader::CallReader;
use crate::shape::{CallShapes, Extent};
use crate::tracer::{Tracer, TracerParts};
use crate::{Observer, ReadImage, RecordedStarts, boot, clock, host};

pub use refusal::AttachError;

/// How to attach.
#[derive(Clone)]
pub struct AttachOptions {
    /// The processes that are watched, with all below them.
    pub pids: Vec<i32>,
    /// For how long; until the last of them ends if not given.
    pub at_most: Option<Duration>,
    /// Record only what starts processes.
    pub starts: Option<RecordedStarts>,
    /// Who looks into processes at their forks and execs.
    pub observer: fn() -> Box<dyn Observer>,
    /// Reads what a mapped ELF file says of its search; called when all are let go of.
    pub read_image: ReadImage,
}

/// Why the watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachEnd {
    /// The last of them had ended.
    AllEnded,
    /// The time was over.
    Passed,
    /// The user asked for it by a signal.
    Asked,
}

/// What was watched.
#[derive(Debug)]
pub struct Watched {
    /// Why it ended.
    pub end: AttachEnd,
    /// How many processes run on.
    pub left: usize,
    /// What the recording does not show.
    pub blinds: Vec<Blind>,
    /// Why the recording is cut, if it is.
    pub failure: Option<String>,
}

/// Signals by which a user ends the watching.
const ASK: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Signals that would stop becalm, and with it all that it watches.
const HELD: [i32; 4] = [libc::SIGCHLD, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Attaches to processes and records them to `file`, which is emptied once all of them are watched.
/// They run on when it returns.
///
/// # Errors
/// [`AttachError`]: then none is watched, and `file` is as it was.
pub fn attach(file: File, options: &AttachOptions) -> Result<Watched, AttachError> {
    let asked = ASK.into_iter().filter(|signal| Disposition::of(*signal) != Disposition::IGNORED);
    let asked: Vec<i32> = asked.collect();
    let before = signals::block(&signals::set(asked.iter().copied().chain(HELD)));
    let traced = std::thread::scope(|scope| {
        let tracing = std::thread::Builder::new().name("tracer".into());
        let follow = || follow(file, options, &asked);
        let tracing = tracing.spawn_scoped(scope, follow).map_err(AttachError::System)?;
        let died = || AttachError::System(io::Error::other("the tracer's thread panicked"));
        tracing.join().map_err(|_| died())?
    });
    let watched = traced.map(|(log, end, left)| {
        let blinds = log.blinds().to_vec();
        let failure = log.finish().err().map(|error| error.to_string());
        Watched { end, left, blinds, failure }
    });
    signals::block_only(&before);
    watched
}

/// The tracing thread.
fn follow(
    file: File,
    options: &AttachOptions,
    asked: &[i32],
) -> Result<(RecordingLog, AttachEnd, usize), AttachError> {
    clock::hear_of_children();
    let every = ptrace::OPTIONS | libc::PTRACE_O_TRACEEXIT;
    options.pids.iter().try_for_each(|pid| refusal::examine(*pid))?;
    for (at, pid) in options.pids.iter().enumerate() {
        if !options.pids[..at].contains(pid) {
            ptrace::seize(*pid, every).map_err(|error| refused(*pid, error))?;
        }
    }
    let origin = Instant::now();
    let sink = boot::empty(file).map_err(AttachError::CannotWrite)?;
    let writer = Writer::new(sink, &header(options)).map_err(AttachError::CannotWrite)?;
    let mut tracer = Tracer::of_nobody(TracerParts {
        log: RecordingLog::new(writer, origin, options.read_image),
        reader: CallReader {
            options: every,
            shapes: CallShapes::new(options.starts.map_or(Extent::Default, Extent::Starts)),
            filtered: false,
            source: CallSource::Kernel,
        },
        observers: Observers(Some((options.observer)())),
        tap: None,
        injector: None,
        binder: CpuBinder::new(false),
        messages: Messages::to_nobody(),
        outer_filter: false,
    });
    options.pids.iter().for_each(|pid| tracer.join(*pid));
    let followed = until_over(&mut tracer, origin, options.at_most, asked);
    let (log, left) = tracer.let_go();
    Ok((log, followed.map_err(AttachError::System)?, left))
}

/// Follows as long as is wanted.
fn until_over(
    tracer: &mut Tracer,
    origin: Instant,
    at_most: Option<Duration>,
    asked: &[i32],
) -> io::Result<AttachEnd> {
    /// So often the time is looked at while nothing happens.
    const LOOK: Nanos = Nanos(100_000_000);
    let is_over = || match at_most {
        Some(most) if origin.elapsed() >= most => Some(AttachEnd::Passed),
        _ => signals::is_pending(asked.iter().copied()).then_some(AttachEnd::Asked),
    };
    let pause = || {
        let left = at_most.map_or(LOOK, |most| {
            Nanos(most.saturating_sub(origin.elapsed()).as_nanos().min(u128::from(LOOK.0)) as u64)
        });
        clock::wait_for_child(left);
    };
    let end = tracer.follow_until(is_over, pause)?;
    // It has been heard, and becalm goes on.
    clock::take_pending(asked);
    Ok(end.unwrap_or(AttachEnd::AllEnded))
}

/// Why a thread could not be traced that was just found to be there.
fn refused(pid: i32, error: TraceError) -> AttachError {
    let error = match error {
        TraceError::Gone => io::Error::from_raw_os_error(libc::ESRCH),
        TraceError::Failed { error, .. } => error,
    };
    refusal::why(pid, &error)
}

/// The recording's beginning: the command is the first process's.
fn header(options: &AttachOptions) -> Header {
    let first = options.pids.first().copied().unwrap_or(0);
    let text = std::fs::read(format!("/proc/{first}/cmdline")).unwrap_or_default();
    let mut argv: Vec<OsString> =
        text.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
    argv.pop();
    let ages = options.pids.iter().map(|pid| standing::age(*pid));
    let age = ages.max().unwrap_or_default();
    let cwd = proc_link(first, "cwd").unwrap_or_default();
    Header {
        starts_only: options.starts.is_some(),
        cwd: String::from_utf8_lossy(&cwd).into_owned(),
        joined: Some(JoinedRun {
            pids: options.pids.iter().map(|pid| pid.unsigned_abs()).collect(),
            age: Nanos(age.as_nanos() as u64),
        }),
        ..host::header(&argv, false, "ptrace")
    }
}
