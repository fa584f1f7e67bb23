//! A process that a probe's child forks, seizes and follows: ptrace(2) in small.

use libc::{c_int, c_long, c_uint};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

use crate::arch::{Registers, call_in};
use crate::child::ProbeStop;
use crate::sys::{checked, fork, refused};

/// A seized process. It is killed when this value is dropped.
pub(crate) struct Tracee {
    pid: Pid,
    go: PipeWriter,
    ended: bool,
}

/// Where a system call is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallStop {
    /// At its entry (or, from registers, at its exit, too).
    Entry(c_long),
    /// At a seccomp filter's request.
    Seccomp(c_long),
    /// Elsewhere.
    Other,
}

impl Tracee {
    /// Forks a process that will run `body` and exit with its value, and seizes it before.
    pub fn start(options: c_int, body: impl FnOnce() -> u8) -> Result<Tracee, ProbeStop> {
        let (reader, go) = pipe().map_err(|_| ProbeStop::last("pipe"))?;
        let mut ours = Some(go);
        let pid = fork(|| {
            ours = None;
            wait_for(reader);
            body()
        })?;
        let go = ours.ok_or(ProbeStop::Error { call: "fork", errno: libc::EIO })?;
        let tracee = Tracee { pid, go, ended: false };
        seize(pid.as_raw_pid(), options)?;
        Ok(tracee)
    }

    /// Lets `body` begin.
    pub fn go(&mut self) -> Result<(), ProbeStop> {
        self.go.write_all(b"!").map_err(|_| ProbeStop::last("write"))
    }

    /// Makes the process stop.
    pub fn interrupt(&self) -> Result<(), ProbeStop> {
        self.request("ptrace(PTRACE_INTERRUPT)", libc::PTRACE_INTERRUPT, 0, 0)
    }

    /// Lets it go on to the next event, or to the next entry or exit of a call.
    pub fn resume(&self, calls: bool) -> Result<(), ProbeStop> {
        match calls {
            true => self.request("ptrace(PTRACE_SYSCALL)", libc::PTRACE_SYSCALL, 0, 0),
            false => self.request("ptrace(PTRACE_CONT)", libc::PTRACE_CONT, 0, 0),
        }
    }

    /// The next status of the process, as waitpid(2) has it.
    pub fn wait(&mut self) -> Result<c_int, ProbeStop> {
        let waited = waitpid(Some(self.pid), WaitOptions::empty()).map_err(refused("waitpid"))?;
        let Some((_, status)) = waited else { return Err(ProbeStop::last("waitpid")) };
        self.ended = status.exited() || status.signaled();
        Ok(status.as_raw())
    }

    /// The call at which the process stands still, with that status: as the kernel says it (Linux
    /// 5.3), or else from its registers, as the recorder does.
    pub fn seen(&self, status: c_int) -> Result<CallStop, ProbeStop> {
        self.seen_by_kernel().or_else(|_| self.seen_in_registers(status))
    }

    fn seen_by_kernel(&self) -> Result<CallStop, ProbeStop> {
        // `struct ptrace_syscall_info`: what it is of comes first, the call's number fourth.
        let mut info = [0_u64; 11];
        self.request(
            "ptrace(PTRACE_GET_SYSCALL_INFO)",
            libc::PTRACE_GET_SYSCALL_INFO,
            size_of_val(&info),
            info.as_mut_ptr() as usize,
        )?;
        let number = info[3] as c_long;
        Ok(match info[0].to_ne_bytes()[0] {
            libc::PTRACE_SYSCALL_INFO_ENTRY => CallStop::Entry(number),
            libc::PTRACE_SYSCALL_INFO_SECCOMP => CallStop::Seccomp(number),
            _ => CallStop::Other,
        })
    }

    fn seen_in_registers(&self, status: c_int) -> Result<CallStop, ProbeStop> {
        /// `NT_PRSTATUS` (linux/elf.h): the general registers.
        const GENERAL: usize = 1;
        let mut registers: Registers = [0; size_of::<Registers>() / size_of::<u64>()];
        let mut into = libc::iovec {
            iov_base: registers.as_mut_ptr().cast(),
            iov_len: size_of_val(&registers),
        };
        let into = (&raw mut into) as usize;
        self.request("ptrace(PTRACE_GETREGSET)", libc::PTRACE_GETREGSET, GENERAL, into)?;
        let number = call_in(&registers) as c_long;
        Ok(match (libc::WSTOPSIG(status), status >> 16) {
            (signal, 0) if signal == libc::SIGTRAP | 0x80 => CallStop::Entry(number),
            (_, libc::PTRACE_EVENT_SECCOMP) => CallStop::Seccomp(number),
            _ => CallStop::Other,
        })
    }

    fn request(
        &self,
        call: &'static str,
        what: c_uint,
        address: usize,
        data: usize,
    ) -> Result<(), ProbeStop> {
        request(call, what, self.pid.as_raw_pid(), address, data)
    }
}

/// Becomes the tracer of the process of this number.
pub(crate) fn seize(pid: i32, options: c_int) -> Result<(), ProbeStop> {
    request("ptrace(PTRACE_SEIZE)", libc::PTRACE_SEIZE, pid, 0, options as usize)
}

fn request(
    call: &'static str,
    what: c_uint,
    pid: i32,
    address: usize,
    data: usize,
) -> Result<(), ProbeStop> {
    // SAFETY: all callers are in this file. They pass, for `data`, a number or the address of a
    // value that the request fills and that outlives the call.
    checked(call, unsafe { libc::ptrace(what, pid, address, data) }).map(|_| ())
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if !self.ended && kill_process(self.pid, Signal::KILL).is_ok() {
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
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
