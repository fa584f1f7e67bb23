//! Signals: delivered as they would be without a tracer.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use proc::ProcessStatus;
use recording::Nanos;

use crate::task::Waiting;
use crate::{arch, ptrace};

/// Decides whether a signal that a thread is stopped at goes on to it.
///
/// The kernel drops an ignored signal when it is sent; not so for a traced process, whose
/// tracer might want it (kernel/signal.c, `sig_ignored`). It then wakes the thread, and a call
/// that the kernel cannot restart returns EINTR: an error that an untraced program would never
/// see. Such a signal is not delivered, and the call is told to restart if no handler runs
/// after all.
///
/// `waiting` is the thread's: the call that was interrupted before, if it is made again.
pub(crate) fn deliver(
    tid: i32,
    waiting: &mut Option<Waiting>,
    signal: i32,
    now: Nanos,
) -> std::io::Result<bool> {
    let mut registers = ptrace::registers(tid)?;
    if !arch::left_call_with_eintr(&registers) || !is_ignored(tid, signal) {
        return Ok(true);
    }
    match arch::timeout(tid, &registers) {
        None => arch::let_kernel_restart(&mut registers),
        Some((timeout, result)) => {
            // A restarted call waits its whole time again: for ever, if such signals keep
            // coming. It ends with the first of them that comes after its time.
            let same = waiting.filter(|waiting| waiting.ip == registers.rip);
            let until = same.map_or(now + timeout, |waiting| waiting.until);
            if now >= until {
                *waiting = None;
                registers.rax = result as u64;
            } else {
                *waiting = Some(Waiting { ip: registers.rip, until });
                arch::let_kernel_restart(&mut registers);
            }
        }
    }
    ptrace::set_registers(tid, &registers)?;
    Ok(false)
}

/// Whether a signal has no effect on a process: ignored, or by default ignored (signal(7)).
fn is_ignored(tid: i32, signal: i32) -> bool {
    let bit = 1u64 << (signal - 1);
    let Some(status) = ProcessStatus::of(tid) else { return false };
    let has = |name: &str| status.mask(name).unwrap_or(0) & bit != 0;
    let by_default = [libc::SIGCHLD, libc::SIGWINCH, libc::SIGURG, libc::SIGCONT].contains(&signal);
    has("SigIgn") || (by_default && !has("SigCgt"))
}

/// The process that sent the signal that a thread is stopped at; 0 for the kernel.
pub(crate) fn sender(tid: i32) -> i32 {
    match ptrace::signal_info(tid) {
        // SAFETY: the kernel fills the sender for signals sent by a process, and zero or a
        // number without meaning otherwise; it is only compared.
        Ok(info) if info.si_code <= 0 => unsafe { info.si_pid() },
        _ => 0,
    }
}

/// Whether the signal that a thread is stopped at is the kernel's own.
pub(crate) fn is_kernels(tid: i32) -> bool {
    ptrace::signal_info(tid).is_ok_and(|info| info.si_code == libc::SI_KERNEL)
}

/// A decimal number of /proc/TID/status.
pub(crate) fn status_number(tid: i32, name: &str) -> Option<u64> {
    ProcessStatus::of(tid)?.number(name)
}

/// Whether a signal that ends its process waits for a stopped thread: one that is neither
/// blocked nor handled, and whose default is to end the process (signal(7)).
pub(crate) fn is_doomed(tid: i32) -> bool {
    const HARMLESS: [i32; 8] = [
        libc::SIGCHLD,
        libc::SIGWINCH,
        libc::SIGURG,
        libc::SIGCONT,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ];
    let Some(status) = ProcessStatus::of(tid) else { return false };
    let mask = |name: &str| status.mask(name).unwrap_or(0);
    let harmless = HARMLESS.iter().fold(0, |bits, signal| bits | 1 << (signal - 1));
    let kept = mask("SigBlk") | mask("SigIgn") | mask("SigCgt") | harmless;
    (mask("SigPnd") | mask("ShdPnd")) & !kept != 0
}

/// Whether executing a file would give other rights: set-user-id, set-group-id, capabilities.
pub(crate) fn has_file_privilege(image: &[u8]) -> bool {
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(image));
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    // SAFETY: system calls without arguments.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let other_user = metadata.mode() & libc::S_ISUID != 0 && metadata.uid() != uid;
    let executable_group = libc::S_ISGID | libc::S_IXGRP;
    let other_group =
        metadata.mode() & executable_group == executable_group && metadata.gid() != gid;
    other_user || other_group || has_capabilities(image)
}

fn has_capabilities(image: &[u8]) -> bool {
    let Ok(path) = std::ffi::CString::new(image) else { return false };
    // SAFETY: two strings that end with a zero byte; no memory is given to fill.
    let size = unsafe {
        libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
    };
    size > 0
}
