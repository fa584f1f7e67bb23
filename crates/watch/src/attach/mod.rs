//! Attaching to processes that run already: they are watched for a while, with all below them, and
//! left as they were.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | from the first request to the recording's end |
//! | `family` | which threads and children a process has |
//! | `standing` | what is known of a process that runs already |
//! | `next_exec` | a launcher's child that is about to become its program |
//! | `refusal` | why one cannot be attached to |
//!
//! One thread of becalm's own process traces, and ends when it is over: with it the kernel lets go
//! of all at once, as it would if becalm were killed. The recording is finished after that.

pub(crate) mod family;
mod next_exec;
mod refusal;
pub(crate) mod standing;

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::time::Instant;

use launch::signals::{self, Disposition};
use recording::{Blind, Header, JoinedRun, LetGo, Nanos, Writer};

use crate::bind::CpuBinder;
use crate::files::proc_link;
use crate::log::RecordingLog;
use crate::message::Messages;
use crate::observers::Observers;
use crate::ptrace::{self, CallSource, TraceError};
use crate::reader::CallReader;
use crate::shape::{CallShapes, Extent};
use crate::start_watch::StartWatch;
use crate::tracer::{Tracer, TracerParts};
use crate::{Observer, ReadImage, RecordedStarts, Until, boot, clock, host};

pub use next_exec::NextExec;
pub use refusal::AttachError;

/// How to attach.
#[derive(Clone)]
pub struct AttachOptions {
    /// The processes that are watched, with all below them.
    pub pids: Vec<i32>,
    /// Of these, the ones that are watched from their next exec on.
    pub next_execs: Vec<NextExec>,
    /// What ends the watching; the end of the last of them does in any case, and a signal.
    pub until: Vec<Until>,
    /// Record only what starts processes.
    pub starts: Option<RecordedStarts>,
    /// Who looks into processes at their forks and execs.
    pub observer: fn() -> Box<dyn Observer>,
    /// Reads what a mapped ELF file says of its search; called when all are let go of.
    pub read_image: ReadImage,
}

/// What was watched.
#[derive(Debug)]
pub struct Watched {
    /// Why they are watched no longer; none where the last of them has ended.
    pub let_go: Option<LetGo>,
    /// How many processes run on.
    pub left: usize,
    /// Whether one that was to be watched from its exec on had begun when it could be.
    pub came_late: bool,
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
/// Of MPI_Init nothing is heard: for that breakpoints would be set, which a killed becalm would
/// leave behind.
///
/// # Errors
/// [`AttachError`]: then none is watched, and `file` is as it was.
pub fn attach(file: File, options: &AttachOptions) -> Result<Watched, AttachError> {
    if proc::is_of_other_namespace() {
        return Err(AttachError::OtherProc);
    }
    let asked = ASK.into_iter().filter(|signal| Disposition::of(*signal) != Disposition::IGNORED);
    let asked: Vec<i32> = asked.collect();
    let before = signals::block(&signals::set(asked.iter().copied().chain(HELD)));
    let watched = std::thread::scope(|scope| {
        let tracing = std::thread::Builder::new().name("tracer".into());
        let follow = || follow(file, options, &asked);
        let tracing = tracing.spawn_scoped(scope, follow).map_err(AttachError::System)?;
        let died = || AttachError::System(io::Error::other("the tracer's thread panicked"));
        tracing.join().map_err(|_| died())?
    });
    signals::block_only(&before);
    watched
}

/// The tracing thread.
fn follow(file: File, options: &AttachOptions, asked: &[i32]) -> Result<Watched, AttachError> {
    clock::hear_of_children();
    let every = ptrace::OPTIONS | libc::PTRACE_O_TRACEEXIT;
    options.pids.iter().try_for_each(|pid| refusal::examine(*pid))?;
    let seized = options.next_execs.iter().map(|exec| exec.seize(every));
    let seized = seized.collect::<Result<Vec<_>, _>>()?;
    let mut pids = options.pids.clone();
    // Parents before their children.
    pids.sort_by_key(|pid| (Reverse(standing::age(*pid)), *pid));
    pids.dedup();
    for pid in pids.iter().filter(|pid| !options.next_execs.iter().any(|exec| exec.is_of(**pid))) {
        ptrace::seize(*pid, every).map_err(|error| refused(*pid, error))?;
    }
    let origin = Instant::now();
    let sink = boot::empty(file).map_err(AttachError::CannotWrite)?;
    let writer = Writer::new(sink, &header(options)).map_err(AttachError::CannotWrite)?;
    let log = RecordingLog::new(writer, origin, options.read_image);
    let until = options.until.clone();
    let start = Until::let_go(&until).then(|| StartWatch::new(until, log.now()));
    let mut tracer = Tracer::of_nobody(TracerParts {
        log,
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
        start,
        page_faults: false,
    });
    pids.iter().for_each(|pid| tracer.join(*pid));
    let came_late = seized.iter().any(|seized| seized.has_begun);
    seized.into_iter().try_for_each(next_exec::Seized::goes_on).map_err(AttachError::System)?;
    let followed = tracer.follow_joined(asked);
    let (mut log, left) = tracer.leave_joined();
    // It has been heard, and becalm goes on.
    clock::take_pending(asked);
    let let_go = followed.map_err(AttachError::System)?;
    if let Some(let_go) = &let_go {
        log.let_go(let_go);
    }
    let blinds = log.blinds().to_vec();
    let failure = log.finish().err().map(|error| error.to_string());
    Ok(Watched { let_go, left, came_late, blinds, failure })
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
