//! A thread of the process, borrowed for one clone(2): about 0.1 ms.
//!
//! The clone is a second thread, which becalm uses from then on ([`Helper`]), while the process
//! runs as before. The thread that was borrowed is stopped by PTRACE_INTERRUPT, which no program
//! sees, and put back at such a stop, where the kernel has not yet decided what becomes of the
//! system call that it interrupted: it restarts by itself, with the time that was left
//! (arch/x86/kernel/signal.c, `arch_do_signal_or_restart`). Its signals are blocked meanwhile, so
//! that they stay pending.

use std::io;
use std::time::{Duration, Instant};

use libc::user_regs_struct as Registers;

use super::error::Error;
use super::helper::Helper;
use super::instructions::Instructions;
use super::process::{PATIENCE, Process};
use super::stops::{self, Stop};
use super::{memory, restart};

/// A second thread of the process, and for how long its maker was stopped.
pub(super) struct Lent {
    pub helper: Helper,
    pub stopped: Duration,
}

/// The code segment of 64-bit programs (`__USER_CS`).
const CODE_64: u64 = 0x33;

/// What a pthread shares with its process (pthread_create(3)), but no memory of its own is set up
/// for it: it runs nothing but system calls.
const THREAD: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM;

/// Why a thread cannot be borrowed at this moment.
enum No {
    /// Another moment, or another thread, may do.
    NotNow(&'static str),
    /// Nothing will.
    Never(Error),
}

/// Borrows whichever thread can be.
///
/// # Errors
/// None can, or tracing is refused: then all are as they were.
pub(super) fn lend(process: &Process, instructions: Instructions) -> Result<Lent, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut why = "it has none that lives";
        for (tid, _) in process.threads()? {
            match lend_thread(process, tid, instructions, deadline) {
                Ok(lent) => return Ok(lent),
                Err(No::NotNow(reason)) => why = reason,
                Err(No::Never(error)) => return Err(error),
            }
        }
        if Instant::now() >= deadline {
            let (pid, why) = (process.pid, why.to_owned());
            return Err(Error::Busy { pid, seconds: PATIENCE.as_secs(), why });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn lend_thread(
    process: &Process,
    tid: i32,
    instructions: Instructions,
    deadline: Instant,
) -> Result<Lent, No> {
    stops::seize(tid).map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => No::NotNow("it has ended"),
        _ => No::Never(process.forbidden(error)),
    })?;
    stop(process, tid, deadline)?;
    let since = Instant::now();
    let made = borrow(process, tid, instructions);
    // ESRCH: it was killed meanwhile.
    let _ = stops::detach(tid);
    let stopped = since.elapsed();
    let helper = Helper::of(process.pid, made?, instructions).map_err(No::Never)?;
    Ok(Lent { helper, stopped })
}

/// Stops a thread that has been seized.
///
/// Each stop takes back the interrupt that was asked for (kernel/signal.c, `ptrace_stop`: "any trap
/// clears pending STOP trap"), so a signal that comes first must not be all that comes.
fn stop(process: &Process, tid: i32, deadline: Instant) -> Result<(), No> {
    let failed = |error| No::Never(trace_error(process, "stopping a thread", error));
    // ESRCH: it has ended; the wait says so.
    let _ = stops::interrupt(tid);
    loop {
        let signal = match stops::wait_until(tid, deadline).map_err(failed)? {
            Some(Stop::Event) => return Ok(()),
            Some(Stop::Signal(signal)) => signal,
            Some(Stop::Gone) => return Err(No::NotNow("it has ended")),
            Some(Stop::Clone | Stop::Syscall) => 0,
            // It cannot be let go before it stops; it is when becalm ends, which is now.
            None => {
                return Err(No::Never(Error::Busy {
                    pid: process.pid,
                    seconds: PATIENCE.as_secs(),
                    why: format!("thread {tid} does not stop ({})", state(tid)),
                }));
            }
        };
        let _ = stops::interrupt(tid);
        stops::resume(tid, signal).map_err(failed)?;
    }
}

/// What the kernel has a thread do: `D (disk sleep) in folio_wait_bit`.
fn state(tid: i32) -> String {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{tid}/{file}"));
    let status = read("status").unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("gone");
    match read("wchan") {
        Ok(place) if place.trim() != "0" && !place.is_empty() => {
            format!("{} in {}", state.trim(), place.trim())
        }
        _ => state.trim().to_owned(),
    }
}

/// Has a stopped thread make the second one, and puts it back, whatever comes of that.
fn borrow(process: &Process, tid: i32, instructions: Instructions) -> Result<i32, No> {
    let failed = |error| No::Never(trace_error(process, "borrowing a thread", error));
    let (registers, mask) =
        stops::registers(tid).and_then(|it| Ok((it, stops::mask(tid)?))).map_err(failed)?;
    check(process, tid, &registers, mask)?;
    stops::trace_clones(tid).map_err(failed)?;
    stops::set_mask(tid, u64::MAX).map_err(failed)?;
    let made = clone(tid, &registers, instructions);
    let restored = put_back(tid, registers, mask);
    match (made, restored) {
        (Ok(made), Ok(())) => Ok(made),
        (Err(error), Ok(())) => {
            Err(No::Never(Error::Call { pid: process.pid, call: "clone", error }))
        }
        // It was killed, or has been stopped in vain: nothing can be done for it.
        (_, Err(error)) => Err(failed(error)),
    }
}

/// Whether a thread can be taken out of what it does at this very place.
fn check(process: &Process, tid: i32, registers: &Registers, mask: u64) -> Result<(), No> {
    if registers.cs != CODE_64 {
        return Err(No::Never(Error::Foreign(process.pid)));
    }
    // Within sigsuspend(2), ppoll(2) and the like other signals are blocked than after it. The
    // borrowed thread gets the latter; a signal that only the former hold back would cut the call
    // short.
    if process.blocked(tid).map_err(No::Never)? & !mask != 0 {
        return Err(No::NotNow("it waits with signals blocked that it takes otherwise"));
    }
    match is_in_rseq(process, tid, registers.rip) {
        true => Err(No::NotNow("it is in a restartable sequence (rseq)")),
        false => Ok(()),
    }
}

/// Whether a thread is within a sequence of instructions that the kernel restarts when the thread
/// has been interrupted (rseq(2)): it would forget that while the thread is elsewhere.
fn is_in_rseq(process: &Process, tid: i32, ip: u64) -> bool {
    let read = |address: u64| memory::read_u64(process.pid, address).unwrap_or(0);
    // `rseq_cs` of struct rseq; then `start_ip` and `post_commit_offset` of struct rseq_cs.
    let section = stops::rseq(tid).map_or(0, |rseq| read(rseq + 8));
    section != 0 && ip.wrapping_sub(read(section.wrapping_add(8))) < read(section.wrapping_add(16))
}

/// The thread makes the call, and comes to a stop after it.
fn clone(tid: i32, registers: &Registers, instructions: Instructions) -> io::Result<i32> {
    let call = Registers {
        rip: instructions.call,
        rax: libc::SYS_clone as u64,
        // No call of the thread's own is under way: nothing to restart.
        orig_rax: u64::MAX,
        rdi: THREAD as u64,
        rsi: 0,
        rdx: 0,
        r10: 0,
        r8: 0,
        ..*registers
    };
    stops::set_registers(tid, &call)?;
    let mut made = None;
    let result = stops::call(tid, |child, _| made = Some(child))?;
    made.ok_or_else(|| io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(0)))
}

/// Puts a thread back to where it was.
fn put_back(tid: i32, mut registers: Registers, mask: u64) -> io::Result<()> {
    // Only at such a stop is what the kernel makes of an interrupted call still open; it is the
    // next one, before any instruction of the program.
    let mut signal = 0;
    loop {
        stops::interrupt(tid)?;
        stops::resume(tid, std::mem::take(&mut signal))?;
        match stops::wait(tid)? {
            Stop::Event => break,
            Stop::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            Stop::Clone | Stop::Syscall => {}
            // SIGSTOP, which alone cannot be blocked.
            Stop::Signal(stopping) => signal = stopping,
        }
    }
    restart::by_kernel(&mut registers);
    stops::set_registers(tid, &registers)?;
    stops::set_mask(tid, mask)
}

pub(super) fn trace_error(process: &Process, what: &'static str, error: io::Error) -> Error {
    let pid = process.pid;
    match error.raw_os_error() {
        Some(libc::ESRCH | libc::ECHILD) => Error::Gone(pid),
        _ => Error::Trace { pid, what, error },
    }
}
