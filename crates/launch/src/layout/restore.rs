//! A limit put back while a process is stopped at its exec, before its first instruction.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{DumpableBehavior, PTracer, Pid, Resource, Rlimit};
use rustix::process::{prlimit, set_dumpable_behavior, set_ptracer};

use crate::{orphan, wait_for};

/// Starts a process of becalm's own that waits for the exec of this one, puts the limit of the
/// stack back, and is gone. It is not this process's child, which the command would otherwise find
/// to be its own.
pub(super) fn by_an_orphan(limit: Rlimit) -> io::Result<()> {
    let (asked, ask) = io::pipe()?;
    let (answers, answer) = io::pipe()?;
    let (asked, ask) = (OwnedFd::from(asked), OwnedFd::from(ask));
    let (answers, answer) = (OwnedFd::from(answers), OwnedFd::from(answer));
    let command = std::process::id() as i32;
    orphan("becalm-limit", &[asked.as_fd(), answer.as_fd()], || {
        let (mut asked, mut answer) =
            (File::from(asked.try_clone()?), File::from(answer.try_clone()?));
        answer.write_all(&(std::process::id() as i32).to_le_bytes())?;
        asked.read_exact(&mut [0])?;
        let seized = seize(command);
        let error = seized.as_ref().err().and_then(io::Error::raw_os_error).unwrap_or(0);
        answer.write_all(&error.to_le_bytes())?;
        seized?;
        until_exec(command)?;
        put_back(command, limit)?;
        detach(command)
    })?;
    drop((asked, answer));
    let (mut ask, mut answers) = (File::from(ask), File::from(answers));
    let helper = number(&mut answers)?;
    // Yama allows a process to be traced by its ancestors only, and by whom it names. Where there
    // is no Yama, this fails, and nothing is needed. After a change of user namespace a process
    // may not be traced unless it says so; an exec begins anew.
    let _ = Pid::from_raw(helper).map(|helper| set_ptracer(PTracer::ProcessID(helper)));
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    ask.write_all(&[1])?;
    match number(&mut answers)? {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn number(from: &mut File) -> io::Result<i32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(i32::from_le_bytes(bytes))
}

/// Becomes the tracer of a process, which goes on.
pub(super) fn seize(pid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, pid, libc::PTRACE_O_TRACEEXEC as usize)
}

/// Waits until a process that is traced has executed a program, and has run nothing of it.
///
/// # Errors
/// ESRCH if it ends instead.
pub(super) fn until_exec(pid: i32) -> io::Result<()> {
    until(pid, |event, _| event == libc::PTRACE_EVENT_EXEC)
}

/// Lets a process that is traced and stopped go on until it comes to a trap.
///
/// # Errors
/// ESRCH if it ends instead.
pub(crate) fn until_trap(pid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_CONT, pid, 0)?;
    until(pid, |event, signal| event == 0 && signal == libc::SIGTRAP)
}

/// Lets a process that is traced and stopped go on to its end, where it stops once more.
///
/// # Errors
/// ESRCH if it is gone, as by SIGKILL.
#[cfg(target_arch = "x86_64")]
pub(super) fn until_exit(pid: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_EXITKILL;
    ptrace(libc::PTRACE_SETOPTIONS, pid, options as usize)?;
    ptrace(libc::PTRACE_CONT, pid, 0)?;
    until(pid, |event, _| event == libc::PTRACE_EVENT_EXIT)
}

fn until(pid: i32, is_it: impl Fn(i32, i32) -> bool) -> io::Result<()> {
    loop {
        let status = match wait_for(pid, libc::__WALL)? {
            Some((status, _)) if libc::WIFSTOPPED(status) => status,
            _ => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
        };
        let (event, signal) = (status >> 16, libc::WSTOPSIG(status));
        match event {
            _ if is_it(event, signal) => return Ok(()),
            // It was stopped, as by Ctrl-Z, and stays so until it is told to go on.
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => {
                ptrace(libc::PTRACE_LISTEN, pid, 0)?;
            }
            libc::PTRACE_EVENT_STOP => ptrace(libc::PTRACE_CONT, pid, 0)?,
            // A signal is passed on.
            _ => ptrace(libc::PTRACE_CONT, pid, signal as usize)?,
        }
    }
}

/// Sets another process's limits of the stack.
pub(super) fn put_back(pid: i32, limit: Rlimit) -> io::Result<()> {
    prlimit(Pid::from_raw(pid), Resource::Stack, limit)?;
    Ok(())
}

/// Lets a stopped process go on, untraced.
pub(super) fn detach(pid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, pid, 0)
}

fn ptrace(request: libc::c_uint, pid: i32, data: usize) -> io::Result<()> {
    // SAFETY: these requests write no memory of this process; the address is unused.
    match unsafe { libc::ptrace(request, pid, 0usize, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
