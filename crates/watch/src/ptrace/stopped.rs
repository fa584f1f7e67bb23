//! A thread that stands still, as a value: it can be looked at and changed, and it can be resumed
//! once, and must be. (The idea is that of tracexec's guards.)

use std::mem::ManuallyDrop;

use super::{CallSource, SyscallInfo, TraceError, event_message, info_of_kernel, request};
use super::{set_options, signal_info};
use crate::arch::{self, ThreadRegisters};

/// How a stopped thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// To the next event.
    ToEvent,
    /// To the next event, entry or exit of a system call.
    ToCall,
}

/// A traced thread that stands still, and will until this value is given to one of
/// [`resume`](StoppedThread::resume), [`listen`](StoppedThread::listen),
/// [`detach`](StoppedThread::detach), [`killed`](StoppedThread::killed).
///
/// To drop it is a bug: a test fails then. In use the thread goes on, so that no command ever
/// hangs for it.
#[must_use = "a stopped thread stands still until it is resumed"]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoppedThread {
    tid: i32,
}

impl StoppedThread {
    /// The thread with this id, of which somebody has just heard that it stands still.
    pub fn heard_of(tid: i32) -> StoppedThread {
        StoppedThread { tid }
    }

    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Goes on, with a signal or none (0).
    pub fn resume(self, how: Resume, signal: i32) -> Result<(), TraceError> {
        let (name, what) = match how {
            Resume::ToEvent => ("PTRACE_CONT", libc::PTRACE_CONT),
            Resume::ToCall => ("PTRACE_SYSCALL", libc::PTRACE_SYSCALL),
        };
        request(name, what, self.let_go(), 0, signal as usize)
    }

    /// Stays stopped with its group, but reports what happens to it.
    pub fn listen(self) -> Result<(), TraceError> {
        request("PTRACE_LISTEN", libc::PTRACE_LISTEN, self.let_go(), 0, 0)
    }

    /// Is traced no longer and goes on, with a signal or none.
    pub fn detach(self, signal: i32) -> Result<(), TraceError> {
        request("PTRACE_DETACH", libc::PTRACE_DETACH, self.let_go(), 0, signal as usize)
    }

    /// Has been killed, or will be with this process (PTRACE_O_EXITKILL): nobody resumes it.
    pub fn killed(self) {
        self.let_go();
    }

    fn let_go(self) -> i32 {
        ManuallyDrop::new(self).tid
    }

    pub fn registers(&self) -> Result<ThreadRegisters, TraceError> {
        ThreadRegisters::read(self.tid)
    }

    pub fn set_registers(&self, registers: &ThreadRegisters) -> Result<(), TraceError> {
        registers.write(self.tid)
    }

    /// Has the call that it is about to enter return this, without being made.
    pub fn answer(&self, value: i64) -> Result<(), TraceError> {
        arch::answer_call(self.tid, value)
    }

    /// What the event is about: the new thread, the one that executed, the filter's 16 bits.
    pub fn event_message(&self) -> Result<u64, TraceError> {
        event_message(self.tid)
    }

    /// Changes what it stops at.
    pub fn set_options(&self, options: i32) -> Result<(), TraceError> {
        set_options(self.tid, options)
    }

    /// How the signal that it is stopped at came (sigaction(2), `si_code`), and who sent it: 0 for
    /// the kernel.
    pub fn signal_code_and_sender(&self) -> Result<(i32, i32), TraceError> {
        let info = signal_info(self.tid)?;
        Ok((info.code, if info.code <= 0 { info.sender } else { 0 }))
    }

    /// Its call. `entry` says whether the stop is one before a call; the kernel itself knows that.
    pub fn syscall_info(&self, source: CallSource, entry: bool) -> Result<SyscallInfo, TraceError> {
        match source {
            CallSource::Kernel => info_of_kernel(self.tid),
            CallSource::Registers if entry => {
                let (arch, ip, number, args) = self.registers()?.entry(self.tid);
                Ok(SyscallInfo::Entry { arch, ip, number, args, filter: None })
            }
            CallSource::Registers => {
                let (value, failed) = self.registers()?.exit(self.tid);
                Ok(SyscallInfo::Exit { value, failed })
            }
        }
    }

    /// The architecture and the stack of a thread that has just executed a program.
    pub fn new_program(&self, source: CallSource) -> Result<(u32, u64), TraceError> {
        if source == CallSource::Kernel
            && let SyscallInfo::None { arch, stack } = info_of_kernel(self.tid)?
        {
            return Ok((arch, stack));
        }
        Ok(self.registers()?.new_program())
    }

    /// Whether the kernel has `PTRACE_GET_SYSCALL_INFO`: an older one gives EIO, a filter or a
    /// sandbox whatever it likes. A thread that is gone says nothing of that.
    pub fn call_source(&self) -> CallSource {
        match info_of_kernel(self.tid) {
            Err(TraceError::Failed { .. }) => CallSource::Registers,
            _ => CallSource::Kernel,
        }
    }

    /// Whether upper halves of vector registers are in use; none where there are none, or the
    /// kernel does not tell.
    pub fn upper_in_use(&self) -> Option<bool> {
        arch::upper_in_use(self.tid)
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        let _ = request("PTRACE_CONT", libc::PTRACE_CONT, self.tid, 0, 0);
        debug_assert!(
            std::thread::panicking(),
            "thread {} was dropped while it stood still",
            self.tid
        );
    }
}

#[cfg(test)]
mod tests;
