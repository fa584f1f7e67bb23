//! Why a process cannot be attached to, and what to do.

use std::io;

use proc::{ProcessStat, ProcessStatus};

/// Why becalm does not attach to processes.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// One of them cannot be watched. None is watched then.
    #[error("cannot attach to process {pid}{name}: {why}")]
    Refused {
        /// Which.
        pid: i32,
        /// Its name, in brackets, where it has one.
        name: String,
        /// Why, and what to do.
        why: String,
    },
    /// What /proc tells of processes would be told of others.
    #[error("{}", crate::OTHER_PROC)]
    OtherProc,
    /// The recording cannot be written.
    #[error("cannot write the recording: {0}")]
    CannotWrite(io::Error),
    /// A thread or a wait failed.
    #[error("cannot follow the processes: {0}")]
    System(io::Error),
}

impl AttachError {
    pub(super) fn refused(pid: i32, why: impl Into<String>) -> AttachError {
        AttachError::Refused { pid, name: name_of(pid), why: why.into() }
    }
}

/// What speaks against a process before it is tried.
pub(super) fn examine(pid: i32) -> Result<(), AttachError> {
    let refused = |why: &str| Err(AttachError::refused(pid, why));
    let (Some(status), Some(stat)) = (ProcessStatus::of(pid), ProcessStat::of(pid)) else {
        return refused("there is none of this number on this machine, or in this container");
    };
    if pid == 1 {
        return refused("it is the first one of the machine or container, and all are below it");
    }
    if let Some(process) = status.number("Tgid").filter(|group| *group != pid as u64) {
        return refused(&format!("it is a thread; attach to its process, {process}"));
    }
    if is_above_becalm(pid) {
        return refused(
            "becalm itself is below it, and cannot be stopped by itself: start becalm \
                        from another terminal",
        );
    }
    if stat.is_of_kernel() {
        return refused("it is a thread of the kernel and makes no system calls");
    }
    if stat.state() == b'Z' && super::family::threads(pid).len() < 2 {
        return refused("it has ended, and only waits to be reaped by its parent");
    }
    match status.number("TracerPid") {
        Some(tracer) if tracer > 0 => refused(&traced_by(tracer as i32)),
        _ => Ok(()),
    }
}

/// Why the kernel refused to have it traced.
pub(super) fn why(pid: i32, error: &io::Error) -> AttachError {
    let status = ProcessStatus::of(pid);
    let number = |name| status.as_ref().and_then(|status| status.number(name)).unwrap_or(0);
    let own = rustix::process::geteuid();
    let may_all = has_ptrace_capability();
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let state = status.as_ref().and_then(|status| status.field("State")).unwrap_or("X");
    let why = if state.starts_with(['X', 'Z']) {
        "it has just ended, or its first thread has".into()
    } else if number("TracerPid") > 0 {
        traced_by(number("TracerPid") as i32)
    } else if !may_all && number("Uid") != u64::from(own.as_raw()) {
        format!(
            "it runs as user {} and becalm as user {own}: run becalm as that user, or as root",
            number("Uid")
        )
    } else if scope.trim() == "3" {
        "kernel.yama.ptrace_scope is 3, which forbids it to everyone until the next boot".into()
    } else if !may_all && matches!(scope.trim(), "1" | "2") {
        format!(
            "kernel.yama.ptrace_scope is {}: only root may attach to a process that becalm has not \
             started; run becalm as root, or let the whole command be watched: becalm check -- CMD",
            scope.trim()
        )
    } else if crate::host::surroundings().has_filter {
        "a seccomp filter, such as a container's, forbids ptrace; allow it (docker run --cap-add \
         SYS_PTRACE), or run becalm outside"
            .into()
    } else if !may_all {
        "it has more rights than becalm (it was started set-user-id, or protects its memory): run \
         becalm as root"
            .into()
    } else {
        "a security module forbids it, or it belongs to another user namespace".into()
    };
    AttachError::refused(pid, format!("{why} ({error})"))
}

/// `tracer` is the thread that traces it, which may be any of a process.
fn traced_by(tracer: i32) -> String {
    let process = ProcessStatus::of(tracer).and_then(|status| status.number("Tgid"));
    let tracer = process.map_or(tracer, |process| process as i32);
    format!(
        "it is traced by process {tracer}{} already, and a process can have only one tracer: end \
         that first",
        name_of(tracer)
    )
}

/// CAP_SYS_PTRACE, bit 19 (capabilities(7)).
fn has_ptrace_capability() -> bool {
    let mask = ProcessStatus::own().and_then(|status| status.mask("CapEff"));
    mask.is_some_and(|mask| mask & 1 << 19 != 0)
}

/// Whether a process is becalm's own, or its parent, or theirs.
fn is_above_becalm(pid: i32) -> bool {
    let mut at = std::process::id() as i32;
    while at > 0 {
        if at == pid {
            return true;
        }
        let parent = ProcessStatus::of(at).and_then(|status| status.number("PPid"));
        at = parent.map_or(0, |parent| parent as i32);
    }
    false
}

fn name_of(pid: i32) -> String {
    let status = ProcessStatus::of(pid);
    let name = status.as_ref().and_then(|status| status.field("Name"));
    name.map_or(String::new(), |name| format!(" ({})", recording::shown(name.as_bytes())))
}
