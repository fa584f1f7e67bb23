//! What a call that has returned changed of a process's descriptors, directories and memory.

use std::cell::RefCell;
use std::rc::Rc;

use recording::{Blind, Outcome};

use crate::arguments::Special;
use crate::faults::MappedFile;
use crate::files::proc_link;
use crate::log::RecordingLog;
use crate::task::{PendingCall, Task};

const PROT_EXEC: u64 = libc::PROT_EXEC as u64;

/// Notes what a call changed of the process's descriptors, directories and memory.
pub(crate) fn apply(
    task: &mut Task,
    log: &mut RecordingLog,
    pending: &PendingCall,
    outcome: Outcome,
) {
    if outcome != Outcome::Failed(libc::EINTR as u16) {
        task.interrupted.timed = None;
    }
    match outcome {
        Outcome::Returned(value) => succeeded(task, log, pending, value),
        Outcome::Failed(error) => failed(task, log, pending, error),
    }
}

fn failed(task: &mut Task, log: &mut RecordingLog, pending: &PendingCall, error: u16) {
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
fn asks_for_strict(pending: &PendingCall) -> bool {
    let args = &pending.args;
    match pending.call.known_name() {
        Some("prctl") => {
            args[0] == libc::PR_SET_SECCOMP as u64
                && args[1] == u64::from(libc::SECCOMP_MODE_STRICT)
        }
        _ => args[0] == u64::from(libc::SECCOMP_SET_MODE_STRICT),
    }
}

fn succeeded(task: &mut Task, log: &mut RecordingLog, pending: &PendingCall, value: i64) {
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
        Special::Map => {
            let file = pending.path.as_ref().map(|path| path.id);
            let start = value as u64;
            let zero = pending.range().map_or(0, |range| range.offset).wrapping_sub(start);
            let mapped = file.map(|path| MappedFile { path, zero });
            task.mapped(log, pending.start, start, args[1], mapped);
            if pending.flags & PROT_EXEC != 0 {
                if let Some(file) = &pending.path {
                    log.mapped(&file.bytes);
                }
                task.space.borrow_mut().map(start, args[1], file, false);
            }
        }
        // Asked now, while the thread stands still: it may be elsewhere when that is needed.
        Special::Chdir | Special::Fchdir => {
            task.directories.borrow_mut().cwd = proc_link(task.tid, "cwd");
        }
        Special::Root => {
            entered_root(task, log);
            if pending.call.known_name() != Some("chroot") {
                log.mounts_changed(task);
            }
        }
        Special::Mount => log.mounts_changed(task),
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
            if args[0] & libc::CLONE_NEWNS as u64 != 0 {
                log.mounts_changed(task);
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
fn entered_root(task: &mut Task, log: &mut RecordingLog) {
    let mut directories = task.directories.borrow_mut();
    directories.cwd = proc_link(task.tid, "cwd");
    directories.root = proc_link(task.tid, "root").unwrap_or_default();
    if directories.root == b"/" {
        directories.root.clear();
    }
    drop(directories);
    log.blind(Blind::OtherRoot { process: task.process });
}

#[cfg(test)]
mod tests;
