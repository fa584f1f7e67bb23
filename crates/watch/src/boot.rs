//! The tracer process: from its fork to the command's exec, and its end.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::rc::Rc;
use std::time::Instant;

use launch::{CannotStart, Command, Gated};
use recording::{Abi, Blind, Call, Header, Sink, Writer};

use crate::bind::Binder;
use crate::brake::Braking;
use crate::calls::Entry;
use crate::files::{self, FullPath};
use crate::log::Log;
use crate::message::{self, Message, Messages};
use crate::ptrace::{self, Resume, Source, SyscallInfo};
use crate::session::Company;
use crate::shape::{self, Extent, Shapes};
use crate::space::Site;
use crate::tapped::Tapped;
use crate::task::{Pending, Task};
use crate::tracer::{Seeing, Tracer, Waited, wait};
use crate::{Options, arch, filter, host, memory};

/// All that the tracer process needs.
pub(crate) struct Job<'a> {
    pub command: &'a Command,
    pub file: File,
    pub options: Options,
    pub company: Company,
    /// The signal mask that becalm was started with.
    pub mask: libc::sigset_t,
    pub messages: Messages,
    pub outer_filter: bool,
}

/// The exec that made the child the command, as it was seen at its entry.
struct FirstExec {
    entry: Option<Entry>,
    path: Vec<u8>,
    source: Source,
    inside: bool,
}

/// Runs the tracer process.
pub(crate) fn run(mut job: Job<'_>) {
    // Every call stops where everything is recorded, and where an outer filter could hide
    // calls from one of ours: its answers outrank SECCOMP_RET_TRACE (seccomp(2)).
    let filtered = !job.options.all_syscalls && !job.outer_filter;
    let mut tappable = shape::tappable();
    if job.company.brake.is_some() {
        // Who is held back must stop.
        tappable.retain(|number| !Call::new(Abi::X86_64, u64::from(*number)).kind().is_metadata());
    }
    let extent = match (job.company.starts, job.options.all_syscalls) {
        (Some(starts), _) => Extent::Starts(starts),
        (None, true) => Extent::All,
        (None, false) => Extent::Default,
    };
    let tap = filtered && job.options.tap && job.company.starts.is_none();
    let tapped = if tap { Tapped::open(&tappable) } else { None };
    let shapes = Shapes::new(extent);
    let shapes = Rc::new(if tapped.is_some() { shapes.without(&tappable) } else { shapes });
    let program = filter::build(&shapes);
    let prepare = || if filtered { filter::install(&program) } else { Ok(()) };
    let mut child = match launch::spawn(job.command, &job.mask, &prepare) {
        Ok(child) => child,
        Err(why) => return cannot_start(&mut job.messages, &why),
    };
    let by_filter = if filtered { libc::PTRACE_O_TRACESECCOMP } else { 0 };
    if let Err(error) = ptrace::seize(child.pid, ptrace::OPTIONS | by_filter) {
        // The child still waits at its gate, and ends when the gate closes with this process.
        let error = error.raw_os_error().unwrap_or(libc::EPERM);
        job.messages.send(&Message::Forbidden { error });
        return;
    }
    message::drop_inherited();
    lift_limits();
    let first = match open_gate(&mut child, filtered, job.options.old_kernel) {
        Ok(Some(first)) => first,
        Ok(None) => return cannot_start(&mut job.messages, &child.why_not()),
        Err(error) => return cannot_start(&mut job.messages, &CannotStart::System(error)),
    };
    // Where it cannot begin, EXITKILL ends the command with this process.
    if let Some(tracer) = begin(job, child.pid, first, shapes, filtered, tapped) {
        follow(tracer);
    }
}

/// The command keeps the limits that it inherited; the recorder's own CPU time and descriptors
/// must not count against them.
fn lift_limits() {
    const NONE: libc::rlimit =
        libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: plain system calls on structures that outlive them.
    unsafe {
        // Only root may lift a hard limit; anyone may go up to it.
        if libc::setrlimit(libc::RLIMIT_CPU, &NONE) != 0 {
            lift_to_hard(libc::RLIMIT_CPU);
        }
    }
    lift_to_hard(libc::RLIMIT_NOFILE);
}

fn lift_to_hard(resource: libc::__rlimit_resource_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls on a structure that outlives them.
    unsafe {
        if libc::getrlimit(resource, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(resource, &limit);
        }
    }
}

fn cannot_start(messages: &mut Messages, why: &CannotStart) {
    messages.send(&Message::CannotStart { status: why.exit_status(), why: why.to_string() });
}

/// Lets the child go on up to its exec; none if it ended without one.
fn open_gate(child: &mut Gated, filtered: bool, old_kernel: bool) -> io::Result<Option<FirstExec>> {
    if !filtered {
        // Without a filter nothing stops the child before its exec but this.
        ptrace::interrupt(child.pid)?;
    }
    child.open()?;
    let source = if old_kernel { Source::Registers } else { Source::Kernel };
    let mut first = FirstExec { entry: None, path: Vec::new(), source, inside: false };
    loop {
        let change = match wait(child.pid, 0)? {
            Waited::Change(change) => change,
            Waited::Nothing => continue,
            Waited::Nobody => return Ok(None),
        };
        if !libc::WIFSTOPPED(change.status) {
            return Ok(None);
        }
        if first.source == Source::Kernel {
            first.source = ptrace::source_of(child.pid);
        }
        let mut how = Resume::Cont;
        match (libc::WSTOPSIG(change.status), change.status >> 16) {
            (_, libc::PTRACE_EVENT_EXEC) => return Ok(Some(first)),
            (_, libc::PTRACE_EVENT_SECCOMP) => note_exec(child.pid, &mut first),
            (signal, 0) if signal == libc::SIGTRAP | 0x80 => {
                first.inside = !first.inside;
                if first.inside && !filtered {
                    note_exec(child.pid, &mut first);
                }
            }
            // It takes back the interrupt that was asked for (kernel/signal.c, ptrace_stop), so
            // that from here on it is by its calls that the child is not lost sight of.
            (signal, 0) => {
                ptrace::resume(child.pid, Resume::Syscall, signal)?;
                continue;
            }
            (signal, libc::PTRACE_EVENT_STOP) if signal != libc::SIGTRAP => how = Resume::Listen,
            _ => {}
        }
        // Without a filter the exec's entry is seen only by stopping at every call.
        if how == Resume::Cont {
            how = Resume::Syscall;
        }
        ptrace::resume(child.pid, how, 0)?;
    }
}

fn note_exec(tid: i32, first: &mut FirstExec) {
    let info = ptrace::syscall_info(tid, first.source, true);
    let Ok(SyscallInfo::Entry { arch, ip, number, args, .. }) = info else { return };
    let (abi, number) = arch::table(arch, number);
    let call = Call::new(abi, number);
    if call.known_name() == Some("execve") {
        first.path.clear();
        let _ = memory::read_string(tid, args[0], &mut first.path);
        let shape = Shapes::new(Extent::Default).of(call);
        first.entry = Some(Entry { call, shape, args, ip });
    }
}

/// Starts the recording at the exec that made the child the command; none, and said so, if the
/// recording cannot be written.
fn begin(
    job: Job<'_>,
    pid: i32,
    first: FirstExec,
    shapes: Rc<Shapes>,
    filtered: bool,
    mut tapped: Option<Tapped>,
) -> Option<Tracer> {
    let Job { command, file, options, company, mut messages, outer_filter, .. } = job;
    let origin = Instant::now();
    if let Some(tapped) = &mut tapped {
        tapped.begin();
    }
    let backend = match (filtered, &tapped) {
        (true, Some(_)) => "ptrace+seccomp+ebpf",
        (true, None) => "ptrace+seccomp",
        (false, _) => "ptrace",
    };
    let starts_only = company.starts.is_some();
    let header = host::header(&command.argv, options.all_syscalls && !starts_only, backend);
    let header = Header { starts_only, ..header };
    let writer = match empty(file).and_then(|sink| Writer::new(sink, &header)) {
        Ok(writer) => writer,
        Err(error) => {
            let why = format!("cannot write the recording: {error}");
            messages.send(&Message::CannotStart { status: 125, why });
            return None;
        }
    };
    let log = Log::new(writer, origin, options.read_image);
    let binder = Binder::new(options.bind);
    let Company { brake, observer, .. } = company;
    let braking = brake.map(|brake| Braking::new(brake, log.now()));
    let seeing = Seeing { shapes, filtered, source: first.source, tapped, braking, observer };
    let mut tracer = Tracer::new(pid, log, binder, messages, seeing);
    // The exec's own exit comes next.
    let mut task = Task { inside: true, ..Task::new(pid) };
    if let Some(entry) = first.entry {
        let mut path = std::env::current_dir().unwrap_or_default().into_os_string();
        task.pending = Some(pending_exec(&mut tracer.log, &entry, &mut path, &first.path));
    }
    inherit_files(&task, &mut tracer.log);
    tracer.adopt_main(task);
    if outer_filter {
        tracer.log.blind(Blind::OuterFilter);
    }
    tracer.messages.send(&Message::Started);
    if tracer.note_exec(pid).is_ok() {
        let _ = tracer.go_on(pid, 0);
    }
    Some(tracer)
}

/// The exec's own event: what `strace` counts as the first call.
fn pending_exec(log: &mut Log, entry: &Entry, cwd: &mut std::ffi::OsString, raw: &[u8]) -> Pending {
    use std::os::unix::ffi::OsStringExt;
    let mut full = std::mem::take(cwd).into_vec();
    files::join(&mut full, b"", raw);
    let path: FullPath = log.full_path(&full);
    Pending {
        call: entry.call,
        shape: entry.shape,
        args: entry.args,
        start: log.now(),
        path: Some(path),
        other_path: None,
        fd: None,
        flags: 0,
        site: Site { file: None, in_loader: false },
        phase: recording::Phase::Running,
        by_descriptor: false,
        clone_flags: 0,
    }
}

/// The files that the command inherits open.
fn inherit_files(task: &Task, log: &mut Log) {
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
fn empty(mut file: File) -> io::Result<Sink> {
    let _ = file.set_len(0);
    let _ = file.seek(SeekFrom::Start(0));
    Ok(Box::new(file))
}

fn follow(mut tracer: Tracer) {
    let followed = tracer.follow();
    tracer.drain();
    tracer.note_lost();
    tracer.settle_brake();
    let finished = tracer.log.finish().map(|_| ());
    let failure = followed.and(finished).err().map(|error| error.to_string());
    tracer.messages.send(&Message::Finished { failure });
}
