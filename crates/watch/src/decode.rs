//! What a call's arguments mean, read while they are in memory: paths, descriptors, flags.

use recording::{Blind, Call, Kind, Nanos, Phase};
use tap::CallString;

use crate::arguments::{CallShape, Special};
use crate::faults::LARGE;
use crate::files::{self, FullPath, proc_link};
use crate::log::RecordingLog;
use crate::memory;
use crate::task::{PendingCall, Task};

/// A call as the tracer finds it at its entry.
pub(crate) struct CallEntry {
    pub call: Call,
    pub shape: CallShape,
    pub args: [u64; 6],
    pub ip: u64,
}

const AT_FDCWD: i32 = libc::AT_FDCWD;
const PROT_EXEC: u64 = libc::PROT_EXEC as u64;
const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;

/// What is known of a call at its entry: its arguments, and where it comes from.
pub(crate) fn at_entry(task: &Task, log: &mut RecordingLog, entry: &CallEntry) -> PendingCall {
    let start = log.now();
    let mut pending = pending(task, entry, start);
    pending.clone_flags = clone_flags(task.tid, entry.shape.special, entry.args[0]);
    if entry.shape.path.is_some() {
        enter_path(task, log, &mut pending, &PathArguments::InMemory);
    } else if entry.shape.fd.is_some() {
        pending.path = path_of_descriptor(task, log, &pending, true);
    }
    if entry.shape.special == Special::Openat2 {
        // struct open_how begins with the flags (openat2(2)).
        pending.flags = memory::read_u64(task.tid, entry.args[2]).unwrap_or(0);
    }
    place(task, &mut pending);
    pending
}

/// What is known of a call that did not stop, after it has returned, with its paths as a tap has
/// read them. What its descriptors stand for follows from the calls before it; the kernel is not
/// asked, whose answer would be of a later moment.
pub(crate) fn without_stop(
    task: &Task,
    log: &mut RecordingLog,
    entry: &CallEntry,
    start: Nanos,
    paths: [CallString<'_>; 2],
) -> PendingCall {
    let mut pending = pending(task, entry, start);
    if entry.shape.path.is_some() {
        enter_path(task, log, &mut pending, &PathArguments::Read(paths));
    } else {
        pending.path = path_of_descriptor(task, log, &pending, false);
    }
    place(task, &mut pending);
    pending
}

/// Where a call's path arguments are.
enum PathArguments<'a> {
    /// In the memory of the thread, which stands still.
    InMemory,
    /// They have been read, and the thread has gone on.
    Read([CallString<'a>; 2]),
}

impl PathArguments<'_> {
    /// Appends the first path, or the second, if it can be read. One that the kernel itself could
    /// not read (EFAULT) is no blind spot; a process that may not be looked into is.
    fn get(
        &self,
        which: usize,
        address: u64,
        task: &Task,
        log: &mut RecordingLog,
        into: &mut Vec<u8>,
    ) -> bool {
        match self {
            PathArguments::InMemory => read_path(task, log, address, into),
            PathArguments::Read(paths) => match paths[which] {
                CallString::Bytes(path) => {
                    into.extend_from_slice(path);
                    true
                }
                _ => false,
            },
        }
    }

    /// Whether what the kernel says of the thread's descriptors is of the moment of the call.
    fn may_ask(&self) -> bool {
        matches!(self, PathArguments::InMemory)
    }
}

fn pending(task: &Task, entry: &CallEntry, start: Nanos) -> PendingCall {
    let argument = |place: Option<u8>| place.map(|place| entry.args[usize::from(place)]);
    PendingCall {
        fd: argument(entry.shape.fd).or(argument(entry.shape.at)).map(|fd| fd as i32),
        flags: argument(entry.shape.flags).unwrap_or(0),
        site: task.space.borrow_mut().site(entry.ip),
        ..PendingCall::of(entry, start)
    }
}

/// Whether the call was made before the program began.
fn place(task: &Task, pending: &mut PendingCall) {
    let mut space = task.space.borrow_mut();
    if space.guesses_phase() && !is_loader_like(pending) {
        space.phase = Phase::Running;
        pending.site.in_loader = false;
    }
    pending.phase = space.phase;
}

fn enter_path(
    task: &Task,
    log: &mut RecordingLog,
    pending: &mut PendingCall,
    paths: &PathArguments<'_>,
) {
    let (shape, args) = (pending.shape, pending.args);
    let get = |place: Option<u8>| place.map(|place| args[usize::from(place)]);
    let at = get(shape.at).map_or(AT_FDCWD, |at| at as i32);
    if shape.at.is_some() && at == AT_FDCWD {
        pending.fd = None;
    }
    let address = get(shape.path).unwrap_or(0);
    let mut raw = Vec::with_capacity(256);
    let (readable, ask) = (paths.get(0, address, task, log, &mut raw), paths.may_ask());
    // An empty path means the descriptor itself, with AT_EMPTY_PATH (open(2)); readlinkat
    // takes it without a flag, and the utimensat family takes a null path so.
    let kind = pending.shape.kind;
    let empty_allowed = get(shape.at_flags)
        .is_some_and(|flags| flags & libc::AT_EMPTY_PATH as u64 != 0)
        || kind == Kind::Readlink
        || (address == 0 && kind == Kind::Change);
    if shape.at.is_some() && raw.is_empty() && (readable || address == 0) && empty_allowed {
        pending.by_descriptor = true;
        if log.unwatched.is_some() && pending.is_fstat() {
            return;
        }
        pending.path = directory_of(task, log, at, ask);
    } else if readable {
        pending.path = full_path(task, log, at, &raw, ask);
    }
    if let Some(address) = get(shape.other_path) {
        let at = get(shape.other_at).map_or(AT_FDCWD, |at| at as i32);
        raw.clear();
        if paths.get(1, address, task, log, &mut raw) {
            pending.other_path = full_path(task, log, at, &raw, ask);
        }
    }
}

fn read_path(task: &Task, log: &mut RecordingLog, address: u64, into: &mut Vec<u8>) -> bool {
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

/// The full path of what was given relative to the directory `at`; `ask` says whether the kernel may
/// be asked what that descriptor stands for.
fn full_path(
    task: &Task,
    log: &mut RecordingLog,
    at: i32,
    raw: &[u8],
    ask: bool,
) -> Option<FullPath> {
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
            match up {
                false => full.extend_from_slice(&descriptor(task, log, at, ask)?.bytes),
                true if ask => full = proc_link(task.tid, &format!("fd/{at}"))?,
                true => full = files::without_links(&descriptor(task, log, at, false)?.bytes)?,
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
fn directory_of(task: &Task, log: &mut RecordingLog, at: i32, ask: bool) -> Option<FullPath> {
    if at == AT_FDCWD {
        return full_path(task, log, at, b".", ask);
    }
    descriptor(task, log, at, ask)
}

/// What a descriptor stands for. Where nobody sees descriptors closed, the kernel says so each time.
fn descriptor(task: &Task, log: &mut RecordingLog, fd: i32, ask: bool) -> Option<FullPath> {
    if log.unwatched.is_none()
        && let Some(path) = task.files.borrow().get(fd)
    {
        return Some(path.clone());
    }
    if !ask || fd < 0 {
        return None;
    }
    let kernel = proc_link(task.tid, &format!("fd/{fd}"))?;
    let Some(unwatched) = &mut log.unwatched else { return Some(log.full_path(&kernel)) };
    let opened = task.files.borrow().may_be(fd, &kernel).cloned();
    let asked = unwatched.names.asked_as(&kernel, opened);
    let path = asked.unwrap_or_else(|| log.full_path(&kernel));
    task.files.borrow_mut().named(fd, &path, &kernel);
    Some(path)
}

/// The file that a descriptor call is about. The kernel is asked only where the answer says
/// what a filesystem has to do: pipes and sockets would cost a question a read.
fn path_of_descriptor(
    task: &Task,
    log: &mut RecordingLog,
    pending: &PendingCall,
    may_ask: bool,
) -> Option<FullPath> {
    let fd = pending.fd?;
    let ask = match pending.shape.kind {
        Kind::List | Kind::Fstat => true,
        Kind::Map => {
            if pending.args[3] & MAP_ANONYMOUS != 0 {
                return None;
            }
            pending.flags & PROT_EXEC != 0 || pending.args[1] >= LARGE
        }
        _ => false,
    };
    descriptor(task, log, fd, ask && may_ask)
}

/// The flags of a call that starts a process or a thread.
pub(crate) fn clone_flags(tid: i32, special: Special, first: u64) -> u64 {
    match special {
        Special::Clone => first,
        // struct clone_args begins with the flags (clone(2)).
        Special::Clone3 => memory::read_u64(tid, first).unwrap_or(0),
        Special::Vfork => (libc::CLONE_VFORK | libc::CLONE_VM) as u64,
        _ => 0,
    }
}

/// musl's loader and C library are one file. Its loader opens libraries, reads their first
/// page and maps them (musl's ldso/dynlink.c); of an open with O_CLOEXEC musl sets that once more by
/// fcntl, for old kernels (src/fcntl/open.c). The first other call is the program's.
fn is_loader_like(pending: &PendingCall) -> bool {
    let library = |path: &FullPath| {
        let name = path.bytes.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        name.windows(3).any(|part| part == b".so") || name.starts_with(b"ld-musl")
    };
    match pending.shape.kind {
        _ if pending.shape.special == Special::Fcntl => pending.flags == libc::F_SETFD as u64,
        Kind::Open => pending.path.as_ref().is_some_and(library),
        Kind::Fstat | Kind::Read | Kind::Map | Kind::Close => true,
        _ => false,
    }
}

#[cfg(test)]
pub(crate) mod tests;
