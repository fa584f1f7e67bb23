//! ptrace(2) and wait(2), as borrowing a thread needs them. Any of them may fail with ESRCH at any
//! time: the process can be killed between two calls.

use std::io;
use std::time::{Duration, Instant};

/// Why a thread has stopped, or that it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// PTRACE_EVENT_STOP: asked for, of a new thread, or with its whole stopped group.
    Event,
    /// It has made a thread or process; PTRACE_GETEVENTMSG says which.
    Clone,
    /// Before or after a system call.
    Syscall,
    /// A signal is about to be delivered.
    Signal(i32),
    /// Exited or killed.
    Gone,
}

/// Options of a borrowed thread: what it makes is seized, too, before it can run. Not
/// PTRACE_O_EXITKILL: should becalm be killed, the process is not to die with it.
const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE;

pub(super) fn seize(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, 0)
}

pub(super) fn interrupt(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// From now on, what the thread makes is traced.
pub(super) fn trace_clones(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SETOPTIONS, tid, 0, OPTIONS as usize)
}

/// On to the next event, with a signal or none.
pub(super) fn resume(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, signal as usize)
}

/// On to the start or end of a system call, or the next event, with a signal or none.
fn to_syscall(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, 0, signal as usize)
}

/// The error by which the kernel says to itself that a call is to be made again once a signal has
/// been dealt with (linux/errno.h); no program sees it.
const ERESTARTNOINTR: i64 = 513;

/// Has a thread, whose registers are set to it, make a call with all signals blocked, and tells
/// each thread or process that it makes, and how long that took. It comes to a stop behind the call.
///
/// SIGSTOP cannot be blocked. It is passed on, so that the group stops as it should; this thread,
/// which is traced, is resumed and goes on. A clone(2) that it comes to is made again by the kernel.
///
/// # Errors
/// The thread is gone, or a fault.
pub(super) fn call(tid: i32, mut made: impl FnMut(i32, Duration)) -> io::Result<i64> {
    let (mut entered, mut signal) = (false, 0);
    loop {
        let resumed = Instant::now();
        to_syscall(tid, std::mem::take(&mut signal))?;
        match wait(tid)? {
            Stop::Syscall if entered => match registers(tid)?.rax as i64 {
                result if result == -ERESTARTNOINTR => entered = false,
                result => return Ok(result),
            },
            Stop::Syscall => entered = true,
            Stop::Clone => made(self::made(tid)?, resumed.elapsed()),
            // With its group, by SIGSTOP or ^Z: the group's stop is reported, this thread goes on.
            Stop::Event => {}
            Stop::Signal(libc::SIGSTOP) => signal = libc::SIGSTOP,
            Stop::Signal(_) => return Err(io::Error::other("a fault of the borrowed call")),
            Stop::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }
}

pub(super) fn detach(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, 0)
}

/// The thread or process that a [`Stop::Clone`] is about.
fn made(tid: i32) -> io::Result<i32> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, (&raw mut message) as usize)?;
    Ok(message as i32)
}

pub(super) fn registers(tid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: user_regs_struct is plain numbers, for which zero is a valid value.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, tid, 0, (&raw mut registers) as usize)?;
    Ok(registers)
}

pub(super) fn set_registers(tid: i32, registers: &libc::user_regs_struct) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(registers) as usize)
}

/// The size of the kernel's signal set.
const MASK_BYTES: usize = 8;

/// The signals that a thread has blocked; within sigsuspend(2) and the like, those that it will
/// have blocked after the call (kernel/ptrace.c, PTRACE_GETSIGMASK).
pub(super) fn mask(tid: i32) -> io::Result<u64> {
    let mut mask = 0_u64;
    request(libc::PTRACE_GETSIGMASK, tid, MASK_BYTES, (&raw mut mask) as usize)?;
    Ok(mask)
}

pub(super) fn set_mask(tid: i32, mask: u64) -> io::Result<()> {
    request(libc::PTRACE_SETSIGMASK, tid, MASK_BYTES, (&raw const mask) as usize)
}

/// The kernel's `struct ptrace_rseq_configuration` (include/uapi/linux/ptrace.h).
#[repr(C)]
#[derive(Default)]
struct Rseq {
    pointer: u64,
    size: u32,
    signature: u32,
    flags: u32,
    pad: u32,
}

/// Where a thread's `struct rseq` is, if it has registered one (Linux 5.13 and later).
pub(super) fn rseq(tid: i32) -> Option<u64> {
    let mut rseq = Rseq::default();
    let size = std::mem::size_of::<Rseq>();
    let what = libc::PTRACE_GET_RSEQ_CONFIGURATION;
    request(what, tid, size, (&raw mut rseq) as usize).ok()?;
    Some(rseq.pointer).filter(|pointer| *pointer != 0)
}

fn request(what: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: every caller passes, for `data`, either a number or a pointer to a value of the
    // type and size that this request fills or reads, which outlives the call.
    let done = unsafe { libc::ptrace(what, tid, address, data) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits for a thread's next stop.
pub(super) fn wait(tid: i32) -> io::Result<Stop> {
    loop {
        match wait_with(tid, 0) {
            Ok(Some(stop)) => return Ok(stop),
            Ok(None) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The same; none if it does not stop in time.
pub(super) fn wait_until(tid: i32, deadline: Instant) -> io::Result<Option<Stop>> {
    loop {
        if let Some(stop) = wait_with(tid, libc::WNOHANG)? {
            return Ok(Some(stop));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn wait_with(tid: i32, options: i32) -> io::Result<Option<Stop>> {
    let mut status = 0;
    // SAFETY: the kernel fills `status`.
    match unsafe { libc::waitpid(tid, &raw mut status, options | libc::__WALL) } {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(Some(stop(status))),
    }
}

fn stop(status: i32) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Gone;
    }
    match (status >> 16, libc::WSTOPSIG(status)) {
        (libc::PTRACE_EVENT_STOP, _) => Stop::Event,
        (libc::PTRACE_EVENT_CLONE, _) => Stop::Clone,
        (0, signal) if signal == libc::SIGTRAP | 0x80 => Stop::Syscall,
        (_, signal) => Stop::Signal(signal),
    }
}
