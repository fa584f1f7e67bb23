//! A thread of another process, lent for system calls that only the process itself may make.
//!
//! A debugger's way (ptrace(2)), but for its danger: at each moment the registers of the thread
//! are its own, or those of [`stub`], which ends in its own without anybody's help. They change
//! from the one to the other in a single request. So becalm may be killed before, in and after
//! each: the kernel lets the thread go on, and it ends where it would have been. Other threads are
//! not touched. What is left then are some bytes that nobody uses, in [`room`].
//!
//! A signal for the thread finds it in its own registers as long as becalm lives: it is put back
//! before the signal is delivered, to the very stop in which it was taken, so that a call that was
//! interrupted ends or begins anew as the signal's handler has it.
//!
//! | file | what it holds |
//! |---|---|
//! | `pick` | which thread: one that an interruption does not change |
//! | `request` | the requests of ptrace(2) that are made |
//! | `room` | where in the process the instructions lie |
//! | `stub` | the instructions: a call, and the way back |

mod pick;
mod request;
mod room;
mod stub;

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use request::{ThreadStop, Traced};
use stub::LentRegisters;

use super::error::LendRefusal;
use super::process::TargetProcess;

/// A thread that runs is given back after so long.
const LONGEST: Duration = Duration::from_millis(50);
/// So often another moment is waited for, in which a thread may be lent.
const MOMENTS: u32 = 50;

/// A thread that makes calls for becalm.
pub(super) struct LentThread {
    thread: Traced,
    /// Where the instructions are.
    at: u64,
    /// What lies there: nothing, or the last of them.
    left: [u8; stub::SIZE],
    /// Its own registers as they were when it was stopped, while it is lent.
    own: Option<LentRegisters>,
    since: Instant,
    lent: Duration,
}

impl LentThread {
    /// Finds a thread, and takes it.
    ///
    /// # Errors
    /// [`LendRefusal`].
    pub(super) fn of(process: &TargetProcess) -> Result<LentThread, LendRefusal> {
        let status = process.read("status").map_err(|_| LendRefusal::NoThread)?;
        let is = |name: &str, value: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.is_some_and(|rest| rest.trim().starts_with(value))
        };
        if !is("Seccomp:", "0") {
            return Err(LendRefusal::Filter);
        }
        if !is("TracerPid:", "0") || is("State:", "T") || is("State:", "t") {
            return Err(LendRefusal::Stopped);
        }
        let at = room::find(process).filter(|_| stub::has_sahf()).ok_or(LendRefusal::NoRoom)?;
        let mut refusal = LendRefusal::NoThread;
        for thread in pick::threads(process) {
            let since = Instant::now();
            let thread = match Traced::seize(thread) {
                Ok(thread) => thread,
                Err(error) => {
                    refusal = error;
                    continue;
                }
            };
            let mut lent = LentThread {
                thread,
                at,
                left: [0; stub::SIZE],
                own: None,
                since,
                lent: Duration::ZERO,
            };
            match lent.take() {
                Ok(()) => return Ok(lent),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// Has the thread make a call.
    ///
    /// # Errors
    /// The call's. ESRCH: it is gone. EINTR: it was stopped, and is no longer lent.
    pub(super) fn call(&mut self, number: i64, arguments: [u64; 3]) -> io::Result<()> {
        loop {
            if self.own.is_none() {
                self.take().map_err(LendRefusal::into_io)?;
            }
            if let Some(result) = self.try_call(number, arguments)? {
                if self.since.elapsed() > LONGEST {
                    self.give_back()?;
                    sleep(Duration::from_millis(1));
                }
                return match result {
                    0.. => Ok(()),
                    error => Err(io::Error::from_raw_os_error(-error as i32)),
                };
            }
        }
    }

    /// For how long it was lent in all.
    pub(super) fn lent(&self) -> Duration {
        self.lent
    }

    /// None where a signal came first: the thread is its own again.
    fn try_call(&mut self, number: i64, arguments: [u64; 3]) -> io::Result<Option<i64>> {
        let Some(own) = self.own else { return Ok(None) };
        let home = stub::going_on(&own);
        self.thread.set_registers(&stub::calling(&home, self.at, number, arguments))?;
        let mut is_inside = false;
        loop {
            self.thread.to_call()?;
            match self.thread.stop()? {
                ThreadStop::Call if is_inside => {
                    return Ok(Some(self.thread.registers()?.rax as i64));
                }
                ThreadStop::Call => is_inside = true,
                ThreadStop::Interrupted => {}
                stop => {
                    self.put_back(&own, stop)?;
                    return Ok(None);
                }
            }
        }
    }

    /// Stops the thread where it can be lent, and puts the instructions in their place.
    fn take(&mut self) -> Result<(), LendRefusal> {
        for _ in 0..MOMENTS {
            self.thread.interrupt()?;
            let stopped = self.thread.registers().map_err(request::refused("PTRACE_GETREGS"))?;
            if self.thread.may_be_lent(&stopped)? {
                // It may have executed another program, which has something else there.
                if !self.thread.holds(self.at, &self.left) {
                    return Err(LendRefusal::NoRoom);
                }
                // It is in its own registers, and no signal has found it in others.
                self.left = stub::code(&stub::going_on(&stopped));
                self.thread.write(self.at, &self.left)?;
                (self.own, self.since) = (Some(stopped), Instant::now());
                return Ok(());
            }
            self.thread.go_on(0).map_err(request::refused("PTRACE_CONT"))?;
            sleep(Duration::from_millis(1));
        }
        Err(LendRefusal::NoThread)
    }

    /// Lets the thread go on where it was.
    fn give_back(&mut self) -> io::Result<()> {
        if let Some(own) = self.return_from_call()? {
            self.put_back(&own, ThreadStop::Interrupted)?;
        }
        Ok(())
    }

    /// Brings a thread from the return of its call to a stop as the one in which it was taken:
    /// there the kernel looks at the call that was interrupted, and at signals that have come since,
    /// as if there had been nothing between. Its own registers; none where it has them already.
    fn return_from_call(&mut self) -> io::Result<Option<LentRegisters>> {
        let Some(own) = self.own else { return Ok(None) };
        self.thread.ask_to_stop()?;
        self.thread.go_on(0)?;
        match self.thread.stop()? {
            ThreadStop::Interrupted => Ok(Some(own)),
            stop => {
                self.put_back(&own, stop)?;
                Ok(None)
            }
        }
    }

    /// Gives a thread its own registers at a stop in which the kernel looks at signals, and lets it
    /// go on.
    fn put_back(&mut self, own: &LentRegisters, stop: ThreadStop) -> io::Result<()> {
        self.thread.set_registers(own)?;
        self.own = None;
        self.lent += self.since.elapsed();
        match stop {
            ThreadStop::Signal(signal) => self.thread.go_on(signal),
            // A job that is stopped stays so, and is left alone.
            ThreadStop::Group => {
                let cleared = self.thread.write(self.at, &[0; stub::SIZE]);
                self.thread.detach()?;
                cleared.map_err(LendRefusal::into_io)?;
                Err(io::Error::from_raw_os_error(libc::EINTR))
            }
            ThreadStop::Call | ThreadStop::Interrupted => self.thread.go_on(0),
        }
    }

    /// Gives the thread back for good, and takes the instructions away.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.return_from_call()? {
            Some(own) => {
                self.thread.set_registers(&own)?;
                self.own = None;
                self.lent += self.since.elapsed();
            }
            None if !self.thread.is_traced() => return Ok(()),
            None => self.thread.interrupt().map_err(LendRefusal::into_io)?,
        }
        let cleared = match self.thread.holds(self.at, &self.left) {
            true => self.thread.write(self.at, &[0; stub::SIZE]),
            false => Ok(()),
        };
        self.thread.detach()?;
        cleared.map_err(LendRefusal::into_io)
    }
}

impl Drop for LentThread {
    fn drop(&mut self) {
        if self.thread.is_traced() {
            let _ = self.end();
        }
    }
}

impl LendRefusal {
    fn into_io(self) -> io::Error {
        match self {
            LendRefusal::Ptrace { error, .. } => error,
            _ => io::Error::from_raw_os_error(libc::EINTR),
        }
    }
}
