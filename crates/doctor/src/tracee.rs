//! A process that a probe's child forks, seizes and follows: ptrace(2) in small.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::mem::size_of;

use libc::{c_int, c_long, c_uint, pid_t};

use crate::child::Stop;
use crate::sys::checked;

/// A seized process. It is killed when this value is dropped.
pub(crate) struct Tracee {
    pid: pid_t,
    go: PipeWriter,
    ended: bool,
}

/// Where a system call is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// At its entry (or, from registers, at its exit, too).
    Entry(c_long),
    /// At a seccomp filter's request.
    Seccomp(c_long),
    /// Elsewhere.
    Other,
}

impl Tracee {
    /// Forks a process that will run `body` and exit with its value, and seizes it before.
    pub fn start(options: c_int, body: impl FnOnce() -> u8) -> Result<Tracee, Stop> {
        let (reader, go) = pipe().map_err(|_| Stop::last("pipe"))?;
        // SAFETY: the process makes system calls only, and leaves by _exit.
        match unsafe { libc::fork() } {
            -1 => Err(Stop::last("fork")),
            0 => {
                drop(go);
                wait_for(reader);
                // SAFETY: ends this process.
                unsafe { libc::_exit(body().into()) }
            }
            pid => {
                let tracee = Tracee { pid, go, ended: false };
                tracee.request("ptrace(PTRACE_SEIZE)", libc::PTRACE_SEIZE, 0, options as usize)?;
                Ok(tracee)
            }
        }
    }

    /// Lets `body` begin.
    pub fn go(&mut self) -> Result<(), Stop> {
        self.go.write_all(b"!").map_err(|_| Stop::last("write"))
    }

    /// Makes the process stop.
    pub fn interrupt(&self) -> Result<(), Stop> {
        self.request("ptrace(PTRACE_INTERRUPT)", libc::PTRACE_INTERRUPT, 0, 0)
    }

    /// Lets it go on to the next event, or to the next entry or exit of a call.
    pub fn resume(&self, calls: bool) -> Result<(), Stop> {
        match calls {
            true => self.request("ptrace(PTRACE_SYSCALL)", libc::PTRACE_SYSCALL, 0, 0),
            false => self.request("ptrace(PTRACE_CONT)", libc::PTRACE_CONT, 0, 0),
        }
    }

    /// The next status of the process, as waitpid(2) has it.
    pub fn wait(&mut self) -> Result<c_int, Stop> {
        let mut status = 0;
        // SAFETY: `status` is valid for writing.
        let pid = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) };
        checked("waitpid", pid.into())?;
        self.ended = libc::WIFEXITED(status) || libc::WIFSIGNALED(status);
        Ok(status)
    }

    /// The call at which the process stands still, with that status: as the kernel says it (Linux
    /// 5.3), or else from its registers, as the recorder does.
    pub fn seen(&self, status: c_int) -> Result<Seen, Stop> {
        self.seen_by_kernel().or_else(|_| self.seen_in_registers(status))
    }

    fn seen_by_kernel(&self) -> Result<Seen, Stop> {
        // SAFETY: the structure is plain numbers, for which zero is a valid value.
        let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
        self.request(
            "ptrace(PTRACE_GET_SYSCALL_INFO)",
            libc::PTRACE_GET_SYSCALL_INFO,
            size_of::<libc::ptrace_syscall_info>(),
            (&raw mut info) as usize,
        )?;
        // SAFETY: `op` says which member of the union the kernel filled; the number comes first in
        // both.
        let number = unsafe { info.u.entry.nr } as c_long;
        Ok(match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => Seen::Entry(number),
            libc::PTRACE_SYSCALL_INFO_SECCOMP => Seen::Seccomp(number),
            _ => Seen::Other,
        })
    }

    fn seen_in_registers(&self, status: c_int) -> Result<Seen, Stop> {
        // SAFETY: the structure is plain numbers, for which zero is a valid value.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let into = (&raw mut registers) as usize;
        self.request("ptrace(PTRACE_GETREGS)", libc::PTRACE_GETREGS, 0, into)?;
        let number = registers.orig_rax as c_long;
        Ok(match (libc::WSTOPSIG(status), status >> 16) {
            (signal, 0) if signal == libc::SIGTRAP | 0x80 => Seen::Entry(number),
            (_, libc::PTRACE_EVENT_SECCOMP) => Seen::Seccomp(number),
            _ => Seen::Other,
        })
    }

    fn request(
        &self,
        call: &'static str,
        what: c_uint,
        address: usize,
        data: usize,
    ) -> Result<(), Stop> {
        // SAFETY: callers pass, for `data`, a number or the address of a value that the request
        // fills and that outlives the call.
        checked(call, unsafe { libc::ptrace(what, self.pid, address, data) }).map(|_| ())
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // SAFETY: `pid` is this process's child, and was not yet reaped.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), libc::__WALL);
        }
    }
}

/// Waits until the tracer says go, or is gone.
fn wait_for(mut reader: PipeReader) {
    while let Err(error) = reader.read(&mut [0]) {
        if error.kind() != std::io::ErrorKind::Interrupted {
            break;
        }
    }
}
