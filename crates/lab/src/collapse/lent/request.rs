//! The requests of ptrace(2), on one thread that was seized.

use std::cell::Cell;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::stub::{self, LentRegisters};
use crate::collapse::error::LendRefusal;

/// The code segment of 64-bit programs (arch/x86/include/asm/segment.h).
const USER_64: u64 = 0x33;
/// `syscall`.
const CALL: u64 = 0x050f;
/// PTRACE_GET_RSEQ_CONFIGURATION of linux/ptrace.h, since Linux 5.13.
const GET_RSEQ: libc::c_uint = 0x420f;
/// A thread that does not stop within this waits for what no signal ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// How seldom it is looked whether a thread has stopped.
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// Why a thread stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadStop {
    /// Before or after a call.
    Call,
    /// About to get a signal.
    Signal(i32),
    /// Stopped with its group.
    Group,
    /// As was asked for.
    Interrupted,
}

/// A thread that this one traces. It goes on as it is if this process ends (not so by
/// PTRACE_O_EXITKILL).
pub(super) struct Traced {
    thread: i32,
    is_traced: bool,
    /// It stands still, and its stop has been waited for: there is no other to come.
    stands: Cell<bool>,
}

/// What the kernel refused.
pub(super) fn refused(call: &'static str) -> impl Fn(io::Error) -> LendRefusal {
    move |error| LendRefusal::Ptrace { call, error }
}

impl Traced {
    pub(super) fn seize(thread: i32) -> Result<Traced, LendRefusal> {
        let options = libc::PTRACE_O_TRACESYSGOOD as usize;
        request(libc::PTRACE_SEIZE, thread, 0, options).map_err(refused("PTRACE_SEIZE"))?;
        Ok(Traced { thread, is_traced: true, stands: Cell::new(false) })
    }

    pub(super) fn is_traced(&self) -> bool {
        self.is_traced
    }

    /// Has the thread stop once it goes on.
    pub(super) fn ask_to_stop(&self) -> io::Result<()> {
        request(libc::PTRACE_INTERRUPT, self.thread, 0, 0)
    }

    /// Stops the thread; signals that come first are passed on.
    pub(super) fn interrupt(&mut self) -> Result<(), LendRefusal> {
        if self.stands.get() {
            return Ok(());
        }
        self.ask_to_stop().map_err(refused("PTRACE_INTERRUPT"))?;
        loop {
            match self.stop().map_err(refused("waiting for its stop"))? {
                ThreadStop::Interrupted => return Ok(()),
                ThreadStop::Signal(signal) => self.go_on(signal),
                ThreadStop::Call => self.go_on(0),
                ThreadStop::Group => {
                    self.detach().map_err(refused("PTRACE_DETACH"))?;
                    return Err(LendRefusal::Stopped);
                }
            }
            .map_err(refused("PTRACE_CONT"))?;
        }
    }

    /// Waits for the next stop.
    pub(super) fn stop(&mut self) -> io::Result<ThreadStop> {
        let (since, mut pause) = (Instant::now(), Duration::from_micros(20));
        loop {
            let mut status = 0;
            // SAFETY: the kernel writes one number.
            let news = unsafe {
                libc::waitpid(self.thread, &raw mut status, libc::__WALL | libc::WNOHANG)
            };
            if news == self.thread && libc::WIFSTOPPED(status) {
                self.stands.set(true);
                return Ok(stop_of(status));
            }
            if news != 0 {
                self.is_traced = false;
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            // Not to be detached while it runs: it is let go when this process ends.
            if since.elapsed() > PATIENCE {
                self.is_traced = false;
                return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
            }
            sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub(super) fn registers(&self) -> io::Result<LentRegisters> {
        // SAFETY: it is made of numbers.
        let mut registers: LentRegisters = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS, self.thread, 0, (&raw mut registers) as usize)?;
        Ok(registers)
    }

    pub(super) fn set_registers(&self, registers: &LentRegisters) -> io::Result<()> {
        request(libc::PTRACE_SETREGS, self.thread, 0, std::ptr::from_ref(registers) as usize)
    }

    /// Whether a stopped thread can be brought back to where it is.
    pub(super) fn may_be_lent(&self, stopped: &LentRegisters) -> Result<bool, LendRefusal> {
        let is_call = stopped.orig_rax as i64 >= 0;
        let instruction = || self.read(stopped.rip.wrapping_sub(2)).map(|word| word & 0xffff);
        Ok(stopped.cs == USER_64
            && stub::can_set(stopped.eflags)
            && (!is_call || instruction()? == CALL)
            && !self.is_in_sequence(stopped.rip)?)
    }

    /// Whether it is in a restartable sequence (rseq(2)), which the kernel would not begin anew if
    /// it were left.
    fn is_in_sequence(&self, at: u64) -> Result<bool, LendRefusal> {
        let mut configuration = [0_u64; 3];
        let size = size_of_val(&configuration);
        let asked = request(GET_RSEQ, self.thread, size, configuration.as_mut_ptr() as usize);
        if asked.is_err() || configuration[0] == 0 {
            // A kernel without them, or a thread.
            return Ok(false);
        }
        let sequence = self.read(configuration[0] + 8)?;
        if sequence == 0 {
            return Ok(false);
        }
        let (start, length) = (self.read(sequence + 8)?, self.read(sequence + 16)?);
        Ok(at.wrapping_sub(start) < length)
    }

    fn read(&self, at: u64) -> Result<u64, LendRefusal> {
        let mut word = 0_u64;
        let into = (&raw mut word) as usize;
        request(libc::PTRACE_PEEKTEXT, self.thread, at as usize, into)
            .map_err(refused("PTRACE_PEEKTEXT"))?;
        Ok(word)
    }

    /// Whether these bytes lie there: not so once the process has executed another program.
    pub(super) fn holds(&self, at: u64, bytes: &[u8]) -> bool {
        let mut words = (at..).step_by(8).zip(bytes.as_chunks::<8>().0);
        words.all(|(place, word)| {
            self.read(place).is_ok_and(|there| there == u64::from_le_bytes(*word))
        })
    }

    /// Writes whole words, also where the process itself may not.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), LendRefusal> {
        for (place, word) in (at..).step_by(8).zip(bytes.as_chunks::<8>().0) {
            let word = u64::from_le_bytes(*word);
            request(libc::PTRACE_POKETEXT, self.thread, place as usize, word as usize)
                .map_err(refused("PTRACE_POKETEXT"))?;
        }
        Ok(())
    }

    /// Lets it go on up to the next call, or its return.
    pub(super) fn to_call(&self) -> io::Result<()> {
        request(libc::PTRACE_SYSCALL, self.thread, 0, 0)?;
        self.stands.set(false);
        Ok(())
    }

    /// Lets it go on, with a signal.
    pub(super) fn go_on(&self, signal: i32) -> io::Result<()> {
        request(libc::PTRACE_CONT, self.thread, 0, signal as usize)?;
        self.stands.set(false);
        Ok(())
    }

    /// Lets it go for good.
    pub(super) fn detach(&mut self) -> io::Result<()> {
        self.is_traced = false;
        request(libc::PTRACE_DETACH, self.thread, 0, 0)
    }
}

fn stop_of(status: i32) -> ThreadStop {
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => ThreadStop::Group,
        libc::PTRACE_EVENT_STOP => ThreadStop::Interrupted,
        _ if signal == libc::SIGTRAP | 0x80 => ThreadStop::Call,
        _ => ThreadStop::Signal(signal),
    }
}

fn request(what: libc::c_uint, thread: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests of this file read or write what their callers' pointers are of, which
    // outlive the call: registers, one word, or three. (By the system call, PEEKTEXT writes its
    // word to `data`.)
    match unsafe { libc::syscall(libc::SYS_ptrace, what as usize, thread as usize, address, data) }
    {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
