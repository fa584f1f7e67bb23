//! What is done at the entry and at the exit of a call.

use std::cell::RefCell;
use std::rc::Rc;

use recording::{Blind, Call, Kind, Nanos, Outcome, Phase};

use crate::brake::Braking;
use crate::files::{self, FullPath, proc_link};
use crate::log::Log;
use crate::memory;
use crate::shape::{Shape, Special};
use crate::task::{Pending, Task};

/// A call as the tracer finds it at its entry.
pub(crate) struct Entry {
    pub call: Call,
    pub shape: Shape,
    pub args: [u64; 6],
    pub ip: u64,
}

const AT_FDCWD: i32 = libc::AT_FDCWD;
const PROT_EXEC: u64 = libc::PROT_EXEC as u64;
const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;

/// Takes in a call's entry: its arguments, while they are in memory, and where it comes from.
pub(crate) fn enter(task: &mut Task, log: &mut Log, entry: &Entry) {
    let start = log.now();
    let mut pending = pending(task, entry, start);
    pending.clone_flags = clone_flags(task.tid, entry.shape.special, entry.args[0]);
    if entry.shape.path.is_some() {
        enter_path(task, log, &mut pending);
    } else if entry.shape.fd.is_some() {
        pending.path = path_of_descriptor(task, log, &pending, true);
    }
    if entry.shape.special == Special::Openat2 {
        // struct open_how begins with the flags (openat2(2)).
        pending.flags = memory::read_u64(task.tid, entry.args[2]).unwrap_or(0);
    }
    place(task, &mut pending);
    task.pending = Some(pending);
}

/// Takes in a call that did not stop, after it has returned. What its descriptor stands for is
/// known from the calls before it; the kernel is not asked, whose answer would be of a later
/// moment.
pub(crate) fn reported(
    task: &mut Task,
    log: &mut Log,
    entry: &Entry,
    times: (Nanos, Nanos),
    outcome: Outcome,
) {
    let (start, end) = times;
    let mut pending = pending(task, entry, start);
    pending.path = path_of_descriptor(task, log, &pending, false);
    place(task, &mut pending);
    if pending.shape.recorded {
        log.call(pending.event(task, outcome, end));
    }
    note(task, log, &pending, outcome);
}

fn pending(task: &Task, entry: &Entry, start: Nanos) -> Pending {
    let argument = |place: Option<u8>| place.map(|place| entry.args[usize::from(place)]);
    Pending {
        call: entry.call,
        shape: entry.shape,
        args: entry.args,
        start,
        path: None,
        other_path: None,
        fd: argument(entry.shape.fd).or(argument(entry.shape.at)).map(|fd| fd as i32),
        flags: argument(entry.shape.flags).unwrap_or(0),
        site: task.space.borrow_mut().site(entry.ip),
        phase: Phase::Running,
        by_descriptor: false,
        clone_flags: 0,
    }
}

/// Whether the call was made before the program began.
fn place(task: &Task, pending: &mut Pending) {
    let mut space = task.space.borrow_mut();
    if space.guesses_phase() && !is_loader_like(pending) {
        space.phase = Phase::Running;
        pending.site.in_loader = false;
    }
    pending.phase = space.phase;
}

fn enter_path(task: &mut Task, log: &mut Log, pending: &mut Pending) {
    let (shape, args) = (pending.shape, pending.args);
    let get = |place: Option<u8>| place.map(|place| args[usize::from(place)]);
    let at = get(shape.at).map_or(AT_FDCWD, |at| at as i32);
    if shape.at.is_some() && at == AT_FDCWD {
        pending.fd = None;
    }
    let address = get(shape.path).unwrap_or(0);
    let mut raw = Vec::with_capacity(256);
    let readable = read_path(task, log, address, &mut raw);
    // An empty path means the descriptor itself, with AT_EMPTY_PATH (open(2)); readlinkat
    // takes it without a flag, and the utimensat family takes a null path so.
    let kind = pending.shape.kind;
    let empty_allowed = get(shape.at_flags)
        .is_some_and(|flags| flags & libc::AT_EMPTY_PATH as u64 != 0)
        || kind == Kind::Readlink
        || (address == 0 && kind == Kind::Change);
    if shape.at.is_some() && raw.is_empty() && (readable || address == 0) && empty_allowed {
        pending.by_descriptor = true;
        pending.path = directory_of(task, log, at);
    } else if readable {
        pending.path = full_path(task, log, at, &raw);
    }
    if let Some(address) = get(shape.other_path) {
        let at = get(shape.other_at).map_or(AT_FDCWD, |at| at as i32);
        raw.clear();
        if read_path(task, log, address, &mut raw) {
            pending.other_path = full_path(task, log, at, &raw);
        }
    }
}

/// Reads a path argument. One that the kernel itself could not read (EFAULT) is no blind spot;
/// a process that may not be looked into is.
fn read_path(task: &Task, log: &mut Log, address: u64, into: &mut Vec<u8>) -> bool {
    match memory::read_string(task.tid, address, into) {
        Ok(()) => true,
        Err(error) => {
            if memory::is_denied(&error) {
                log.blind(Blind::Unreadable { process: task.process });
            }
            false
        }
    }
}

/// The full path of what was given relative to the directory `at`.
fn full_path(task: &Task, log: &mut Log, at: i32, raw: &[u8]) -> Option<FullPath> {
    let mut directories = task.directories.borrow_mut();
    let mut full = Vec::with_capacity(raw.len() + 64);
    let mut raw = raw;
    if raw.first() != Some(&b'/') {
        // What `..` means is known only of a directory without symbolic links in its path, as the
        // kernel names it.
        let up = raw.starts_with(b"..");
        if at == AT_FDCWD {
            if directories.cwd.is_none() {
                directories.cwd = proc_link(task.tid, "cwd");
            }
            full.extend_from_slice(directories.cwd.as_deref()?);
        } else {
            match task.files.borrow().get(at).filter(|_| !up) {
                Some(directory) => full.extend_from_slice(&directory.bytes),
                None => full = proc_link(task.tid, &format!("fd/{at}"))?,
            }
        }
        if up {
            raw = files::climb(&mut full, raw);
        }
    }
    files::join(&mut full, &directories.root, raw);
    Some(log.full_path(&full))
}

/// The path that a directory descriptor stands for.
fn directory_of(task: &Task, log: &mut Log, at: i32) -> Option<FullPath> {
    if at == AT_FDCWD {
        return full_path(task, log, at, b".");
    }
    descriptor(task, log, at, true)
}

fn descriptor(task: &Task, log: &mut Log, fd: i32, ask: bool) -> Option<FullPath> {
    if let Some(path) = task.files.borrow().get(fd) {
        return Some(path.clone());
    }
    if !ask || fd < 0 {
        return None;
    }
    Some(log.full_path(&proc_link(task.tid, &format!("fd/{fd}"))?))
}

/// The file that a descriptor call is about. The kernel is asked only where the answer says
/// what a filesystem has to do: pipes and sockets would cost a question a read.
fn path_of_descriptor(
    task: &Task,
    log: &mut Log,
    pending: &Pending,
    may_ask: bool,
) -> Option<FullPath> {
    let fd = pending.fd?;
    let ask = match pending.shape.kind {
        Kind::List | Kind::Fstat => true,
        Kind::Map => {
            if pending.args[3] & MAP_ANONYMOUS != 0 {
                return None;
            }
            pending.flags & PROT_EXEC != 0
        }
        _ => false,
    };
    descriptor(task, log, fd, ask && may_ask)
}

/// The flags of a call that starts a process or a thread.
fn clone_flags(tid: i32, special: Special, first: u64) -> u64 {
    match special {
        Special::Clone => first,
        // struct clone_args begins with the flags (clone(2)).
        Special::Clone3 => memory::read_u64(tid, first).unwrap_or(0),
        Special::Vfork => (libc::CLONE_VFORK | libc::CLONE_VM) as u64,
        _ => 0,
    }
}

/// musl's loader and C library are one file. Its loader opens libraries, reads their first
/// page and maps them (musl's ldso/dynlink.c); the first other call is the program's.
fn is_loader_like(pending: &Pending) -> bool {
    let library = |path: &FullPath| {
        let name = path.bytes.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        name.windows(3).any(|part| part == b".so") || name.starts_with(b"ld-musl")
    };
    match pending.shape.kind {
        Kind::Open => pending.path.as_ref().is_some_and(library),
        Kind::Fstat | Kind::Read | Kind::Map | Kind::Close => true,
        _ => false,
    }
}

/// Takes in a call's exit. A call that its thread is held after is recorded once that goes on.
pub(crate) fn leave(
    task: &mut Task,
    log: &mut Log,
    braking: Option<&mut Braking>,
    outcome: Outcome,
) -> Option<Pending> {
    let pending = task.pending.take()?;
    if pending.shape.recorded {
        let event = pending.event(task, outcome, log.now());
        if !braking.is_some_and(|braking| braking.holds(&event, &pending)) {
            log.call(event);
        }
    }
    note(task, log, &pending, outcome);
    Some(pending)
}

/// Notes what a call changed of the process's descriptors, directories and memory.
fn note(task: &mut Task, log: &mut Log, pending: &Pending, outcome: Outcome) {
    if outcome != Outcome::Failed(libc::EINTR as u16) {
        task.waiting = None;
    }
    match outcome {
        Outcome::Returned(value) => succeeded(task, log, pending, value),
        Outcome::Failed(error) => failed(task, log, pending, error),
    }
}

fn failed(task: &mut Task, log: &mut Log, pending: &Pending, error: u16) {
    match pending.shape.special {
        // The descriptor is gone whatever close says, unless there was none (close(2)).
        Special::Close if i32::from(error) != libc::EBADF => {
            task.files.borrow_mut().closed(pending.args[0] as i32);
        }
        // Strict mode, which is refused where there is a filter: becalm's own.
        Special::OwnFilter if i32::from(error) == libc::EINVAL && asks_for_strict(pending) => {
            log.blind(Blind::OwnFilter { process: task.process });
        }
        Special::Ptrace if i32::from(error) == libc::EPERM => {
            log.blind(Blind::TracerRefused { process: task.process });
        }
        _ => {}
    }
}

/// seccomp(2)'s strict mode, by either of its calls.
fn asks_for_strict(pending: &Pending) -> bool {
    let args = &pending.args;
    match pending.call.known_name() {
        Some("prctl") => {
            args[0] == libc::PR_SET_SECCOMP as u64
                && args[1] == u64::from(libc::SECCOMP_MODE_STRICT)
        }
        _ => args[0] == u64::from(libc::SECCOMP_SET_MODE_STRICT),
    }
}

fn succeeded(task: &mut Task, log: &mut Log, pending: &Pending, value: i64) {
    let args = &pending.args;
    let new_fd = value as i32;
    let close_on_exec = |flags: u64| flags & libc::O_CLOEXEC as u64 != 0;
    match pending.shape.special {
        Special::Open | Special::Openat2 => {
            let flag = close_on_exec(pending.flags);
            task.files.borrow_mut().opened(new_fd, pending.path.clone(), flag);
        }
        Special::Close => task.files.borrow_mut().closed(args[0] as i32),
        Special::CloseRange => {
            if args[2] & u64::from(libc::CLOSE_RANGE_UNSHARE) != 0 {
                unshare_files(task);
            }
            let mark_only = args[2] & u64::from(libc::CLOSE_RANGE_CLOEXEC) != 0;
            task.files.borrow_mut().closed_range(args[0] as u32, args[1] as u32, mark_only);
        }
        Special::Dup => duplicate(task, args[0] as i32, new_fd, false),
        Special::DupTo if args[0] as i32 != new_fd => {
            let dup3 = pending.call.name() == "dup3";
            duplicate(task, args[0] as i32, new_fd, dup3 && close_on_exec(args[2]));
        }
        Special::Fcntl => match args[1] as i32 {
            libc::F_DUPFD => duplicate(task, args[0] as i32, new_fd, false),
            libc::F_DUPFD_CLOEXEC => duplicate(task, args[0] as i32, new_fd, true),
            libc::F_SETFD => {
                let set = args[2] & libc::FD_CLOEXEC as u64 != 0;
                task.files.borrow_mut().close_on_exec(args[0] as i32, set);
            }
            _ => {}
        },
        Special::Map if pending.flags & PROT_EXEC != 0 => {
            if let Some(file) = &pending.path {
                log.mapped(&file.bytes);
            }
            let file = pending.path.as_ref().map(|path| path.id);
            task.space.borrow_mut().map(value as u64, args[1], file, false);
        }
        Special::Chdir | Special::Fchdir => task.directories.borrow_mut().cwd = None,
        Special::Root => entered_root(task, log),
        Special::OwnFilter => {
            let prctl = pending.call.name() == "prctl";
            let installs = if prctl {
                args[0] == libc::PR_SET_SECCOMP as u64
            } else {
                args[0] <= u64::from(libc::SECCOMP_SET_MODE_FILTER)
            };
            if installs {
                log.blind(Blind::OwnFilter { process: task.process });
            }
        }
        Special::IoUring => log.blind(Blind::IoUring { process: task.process }),
        Special::Unshare => {
            if args[0] & libc::CLONE_FILES as u64 != 0 {
                unshare_files(task);
            }
            if args[0] & (libc::CLONE_FS | libc::CLONE_NEWNS) as u64 != 0 {
                let directories = task.directories.borrow().clone();
                task.directories = Rc::new(RefCell::new(directories));
            }
        }
        _ => {}
    }
}

fn unshare_files(task: &mut Task) {
    let files = task.files.borrow().clone();
    task.files = Rc::new(RefCell::new(files));
}

fn duplicate(task: &mut Task, from: i32, to: i32, close_on_exec: bool) {
    let mut files = task.files.borrow_mut();
    let path = files.get(from).cloned();
    files.opened(to, path, close_on_exec);
}

/// After chroot, pivot_root or setns: absolute paths begin elsewhere.
fn entered_root(task: &mut Task, log: &mut Log) {
    let mut directories = task.directories.borrow_mut();
    directories.cwd = None;
    directories.root = proc_link(task.tid, "root").unwrap_or_default();
    if directories.root == b"/" {
        directories.root.clear();
    }
    drop(directories);
    log.blind(Blind::OtherRoot { process: task.process });
}
