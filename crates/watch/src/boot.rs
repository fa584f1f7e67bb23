//! The tracer process: from its fork to the command's exec, and its end.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::time::Instant;

use launch::{CannotStart, Command, Gated};
use recording::{Call, Header, Sink, Writer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::bind::CpuBinder;
use crate::call_tap::CallTap;
use crate::decode::CallEntry;
use crate::files;
use crate::inject::DelayInjector;
use crate::log::{RecordingLog, UnwatchedDescriptors};
use crate::message::{self, Messages, TracerMessage};
use crate::observers::Observers;
use crate::ptrace::{
    self, CallSource, PtraceStop, Resume, StopChange, StoppedThread, TraceError, Waited, wait,
};
use crate::reader::{self, CallReader, StoppedCall};
use crate::session::Instruments;
use crate::shape::{self, CallShapes, Extent};
use crate::start_watch::StartWatch;
use crate::task::{PendingCall, Task};
use crate::tracer::{Tracer, TracerParts};
use crate::{RecorderOptions, Until, WatchedCalls, arch, filter, host, memory};

/// All that the tracer process needs.
pub(crate) struct TracerStart<'a> {
    pub command: &'a Command,
    pub file: File,
    pub options: RecorderOptions,
    pub instruments: Instruments,
    /// The signal mask that becalm was started with.
    pub mask: libc::sigset_t,
    pub messages: Messages,
    pub outer_filter: bool,
}

/// The exec that made the child the command, as it was seen at its entry.
struct FirstExec {
    entry: Option<CallEntry>,
    path: Vec<u8>,
    inside: bool,
}

/// Runs the tracer process.
pub(crate) fn run(mut job: TracerStart<'_>) {
    // Every call stops where everything is recorded, and where an outer filter could hide
    // calls from one of ours: its answers outrank SECCOMP_RET_TRACE (seccomp(2)). Who is let go of
    // must not have one, as it could not be taken away again.
    let lets_go = Until::let_go(&job.instruments.until);
    let everything = job.options.calls == WatchedCalls::All;
    let filtered = !everything && !job.outer_filter && !lets_go;
    let mut tappable = shape::tappable();
    // What is bound to a processor must not read that there.
    tappable.iter_mut().for_each(|call| call.stops_in_proc &= job.options.bind);
    if job.instruments.delays.is_some() {
        // Who is delayed must stop.
        tappable.retain(|call| {
            let kind = Call::new(arch::NATIVE, u64::from(call.number)).kind();
            call.strings == [None; 2] && !kind.is_metadata()
        });
    }
    // Most starts are over before a tap is made; and what is said of a start does not depend on who
    // may make one.
    let has_data = job.options.calls == WatchedCalls::WithData;
    let tap = filtered && has_data && job.options.tap && job.instruments.starts.is_none();
    let tapped = if tap { CallTap::open(&tappable) } else { None };
    let extent = match (job.instruments.starts, job.options.calls) {
        (Some(starts), _) => Extent::Starts(starts),
        (None, WatchedCalls::All) => Extent::All,
        (None, WatchedCalls::MetadataOnly) => Extent::Metadata,
        (None, WatchedCalls::WithData) => Extent::Default,
    };
    let shapes = CallShapes::new(extent);
    let shapes = if tapped.is_some() { shapes.without(&tappable) } else { shapes };
    let page_faults = job.options.page_faults && job.instruments.starts.is_none();
    let shapes = if page_faults { shapes.with_large_mappings() } else { shapes };
    let program = filter::build(&shapes);
    let prepare = || if filtered { filter::install(&program) } else { Ok(()) };
    let mut child = match launch::spawn(job.command, &job.mask, &prepare) {
        Ok(child) => child,
        Err(why) => return cannot_start(&mut job.messages, &why),
    };
    if let Err(error) = ptrace::seize(child.pid, reader::options(filtered)) {
        // The child still waits at its gate, and ends when the gate closes with this process.
        let error = match error {
            TraceError::Gone => libc::ESRCH,
            TraceError::Failed { error, .. } => error.raw_os_error().unwrap_or(libc::EPERM),
        };
        job.messages.send(&TracerMessage::Forbidden { error });
        return;
    }
    message::drop_inherited();
    lift_limits();
    let source = if job.options.old_kernel { CallSource::Registers } else { CallSource::Kernel };
    let options = reader::options(filtered);
    let mut reader = CallReader { options, shapes, filtered, source };
    let (first, thread) = match open_gate(&mut child, &mut reader) {
        Ok(Some(first)) => first,
        Ok(None) => return cannot_start(&mut job.messages, &child.why_not()),
        Err(error) => return cannot_start(&mut job.messages, &CannotStart::System(error)),
    };
    // Where it cannot begin, EXITKILL ends the command with this process.
    if let Some(tracer) = begin(job, extent, first, thread, reader, tapped) {
        tracer.run();
    }
}

/// The command keeps the limits that it inherited; the recorder's own CPU time and descriptors
/// must not count against them.
fn lift_limits() {
    const NONE: Rlimit = Rlimit { current: None, maximum: None };
    // Only root may lift a hard limit; anyone may go up to it.
    if setrlimit(Resource::Cpu, NONE).is_err() {
        lift_to_hard(Resource::Cpu);
    }
    lift_to_hard(Resource::Nofile);
}

/// Where it is refused after all, the recorder has to do with what there is.
fn lift_to_hard(resource: Resource) {
    let limit = getrlimit(resource);
    let _ = setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
}

fn cannot_start(messages: &mut Messages, why: &CannotStart) {
    messages.send(&TracerMessage::CannotStart { status: why.exit_status(), why: why.to_string() });
}

/// Lets the child go on up to its exec, where it stands then; none if it ended without one.
fn open_gate(
    child: &mut Gated,
    reader: &mut CallReader,
) -> io::Result<Option<(FirstExec, StoppedThread)>> {
    if !reader.filtered {
        // Without a filter nothing stops the child before its exec but this.
        ptrace::interrupt(child.pid).map_err(io::Error::other)?;
    }
    child.open()?;
    let mut first = FirstExec { entry: None, path: Vec::new(), inside: false };
    loop {
        let (thread, stop) = match wait(child.pid, 0)? {
            Waited::Change(StopChange::Stopped(thread, stop)) => (thread, stop),
            Waited::Nothing => continue,
            Waited::Change(StopChange::Ended(_)) | Waited::Nobody => return Ok(None),
        };
        if reader.source == CallSource::Kernel {
            reader.source = thread.call_source();
        }
        if stop == PtraceStop::Exec {
            return Ok(Some((first, thread)));
        }
        // The exec's entry is seen by the filter; without one, and after a signal, which takes back
        // the interrupt that was asked for (kernel/signal.c, ptrace_stop), only by stopping at
        // every call.
        let gone_on = match stop {
            PtraceStop::FilteredCall => {
                note_exec(&thread, reader, &mut first);
                thread.resume(Resume::ToCall, 0)
            }
            PtraceStop::Call => {
                first.inside = !first.inside;
                if first.inside && !reader.filtered {
                    note_exec(&thread, reader, &mut first);
                }
                thread.resume(Resume::ToCall, 0)
            }
            PtraceStop::Signal(signal) => thread.resume(Resume::ToCall, signal),
            PtraceStop::Group(_) => thread.listen(),
            _ => thread.resume(Resume::ToCall, 0),
        };
        match gone_on {
            // It was killed: its end is next.
            Ok(()) | Err(TraceError::Gone) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

/// What cannot be read of it is left out: the exec's own stop says what has come of it.
fn note_exec(thread: &StoppedThread, reader: &CallReader, first: &mut FirstExec) {
    let Ok(StoppedCall::Entry(entry)) = reader.call(thread, true) else { return };
    if entry.call.known_name() == Some("execve") {
        first.path.clear();
        let _ = memory::read_string(thread.tid(), entry.args[0], &mut first.path);
        let shape = CallShapes::new(Extent::Default).of(entry.call);
        first.entry = Some(CallEntry { shape, ..entry });
    }
}

/// Starts the recording at the exec that made the child the command; none, and said so, if the
/// recording cannot be written.
fn begin(
    job: TracerStart<'_>,
    extent: Extent,
    first: FirstExec,
    thread: StoppedThread,
    reader: CallReader,
    mut tap: Option<CallTap>,
) -> Option<Tracer> {
    let TracerStart { command, file, options, instruments, mut messages, outer_filter, .. } = job;
    let origin = Instant::now();
    if let Some(tap) = &mut tap {
        tap.begin();
    }
    let backend = match (reader.filtered, &tap) {
        (true, Some(_)) => "ptrace+seccomp+ebpf",
        (true, None) => "ptrace+seccomp",
        (false, _) => "ptrace",
    };
    let header = host::header(&command.argv, extent == Extent::All, backend);
    let starts_only = matches!(extent, Extent::Starts(_));
    let metadata_only = extent == Extent::Metadata;
    let page_faults = options.page_faults && !starts_only;
    let header = Header { starts_only, metadata_only, page_faults, ..header };
    let writer = match empty(file).and_then(|sink| Writer::new(sink, &header)) {
        Ok(writer) => writer,
        Err(error) => {
            let why = format!("cannot write the recording: {error}");
            messages.send(&TracerMessage::CannotStart { status: 125, why });
            thread.killed();
            return None;
        }
    };
    let mut log = RecordingLog::new(writer, origin, options.read_image);
    log.unwatched = metadata_only.then(UnwatchedDescriptors::default);
    let binder = CpuBinder::new(options.bind);
    let Instruments { delays, observer, until, .. } = instruments;
    let start = Until::let_go(&until).then(|| StartWatch::begin(until, log.now()));
    let injector = delays.map(|delays| DelayInjector::new(delays, log.now()));
    // The exec's own exit comes next.
    let mut task = Task { inside: true, ..Task::new(thread.tid()) };
    if let Some(entry) = first.entry {
        let mut path = std::env::current_dir().unwrap_or_default().into_os_string();
        task.pending = Some(pending_exec(&mut log, &entry, &mut path, &first.path));
    }
    inherit_files(&task, &mut log);
    let observers = Observers(observer);
    #[rustfmt::skip]
    let parts = TracerParts {
        log, reader, observers, tap, injector, binder, messages, outer_filter, start, page_faults,
    };
    Some(Tracer::begin(parts, task, thread))
}

/// The exec's own event: what `strace` counts as the first call.
fn pending_exec(
    log: &mut RecordingLog,
    entry: &CallEntry,
    cwd: &mut std::ffi::OsString,
    raw: &[u8],
) -> PendingCall {
    use std::os::unix::ffi::OsStringExt;
    let mut full = std::mem::take(cwd).into_vec();
    files::join(&mut full, b"", raw);
    let path = log.full_path(&full);
    PendingCall { path: Some(path), ..PendingCall::of(entry, log.now()) }
}

/// The files that the command inherits open.
fn inherit_files(task: &Task, log: &mut RecordingLog) {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{}/fd", task.tid)) else { return };
    for entry in entries.flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(path) = files::proc_link(task.tid, &format!("fd/{fd}")) {
            let path = log.full_path(&path);
            task.files.borrow_mut().opened(fd, Some(path), false);
        }
    }
}

/// Empties a file that is about to be written. What cannot be emptied (a pipe, a device) is
/// written as it is.
pub(crate) fn empty(mut file: File) -> io::Result<Sink> {
    let _ = file.set_len(0);
    let _ = file.seek(SeekFrom::Start(0));
    Ok(Box::new(file))
}
