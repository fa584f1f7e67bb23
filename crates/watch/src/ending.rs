//! A process that nothing is recorded of, followed to its end, and looked at there.
//!
//! Its first thread is traced only for that; other threads and children are not. No call stops,
//! but each signal does, which costs it some microseconds: whoever gets many is left alone.

use std::io;
use std::time::{Duration, Instant};

use proc::{ProcessStat, ProcessStatus};
use recording::Nanos;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, geteuid, waitid};

use crate::ptrace::{PtraceStop, Resume, StoppedThread, TraceError};
use crate::signals;
use crate::task::InterruptedCalls;

/// So many signals are passed on, and as many more in each second; a process that gets more is
/// traced no longer. Each costs it up to 20 us, where the tracer wakes on another processor.
const SIGNALS: u64 = 100;

/// What a process was found to be at its end.
#[derive(Clone, Debug)]
pub struct AtEnd {
    /// When that was.
    pub at: Instant,
    /// The processor on which its first thread ended.
    pub processor: Option<u32>,
    /// How long its first thread had waited for a processor since it was forked.
    pub waited: Option<Duration>,
    /// Whether upper halves of vector registers were in use (XSTATE_BV, bit 2) when its first
    /// thread ended. None where it was not looked at: untraced, or no longer because of many
    /// signals, become another program by exec of another thread, or on a processor without them.
    pub upper_in_use: Option<bool>,
    /// The programs that its first thread executed after the one that was started, in their order.
    /// None are seen where it was untraced.
    pub executed: Vec<ProgramAtExec>,
    /// The processor time of all of its threads, and of no child; none where the kernel does not
    /// tell.
    pub own_cpu: Option<Duration>,
}

/// A program that a process has executed, before its first instruction.
#[derive(Clone, Debug)]
pub struct ProgramAtExec {
    /// Where the program, its loader and its stack lie, as /proc/PID/maps tells it.
    pub maps: String,
    /// The processor time of the process's threads until then.
    pub own_cpu: Duration,
    /// Whether it did not get rights of its own, because it is traced.
    pub lost_rights: bool,
}

/// Lets a child go on that this thread traces, and that is stopped, until it has ended; it is then
/// still to be waited for. `traced` says whether it is looked at as it ends, for which it stays
/// traced: signals and stops reach it as they would otherwise.
///
/// # Errors
/// Those of ptrace(2) and waitid(2), where the child is another's.
pub fn to_end(pid: i32, traced: bool) -> io::Result<AtEnd> {
    let thread = StoppedThread::heard_of(pid);
    gone_is_fine(if traced { start(thread) } else { thread.detach(0) })?;
    let mut followed = FollowedToEnd::from_now();
    let id = Pid::from_raw(pid).ok_or(Errno::INVAL)?;
    // Stops of one who is traced are told even where they are not asked for, others are not
    // (wait_task_stopped of kernel/exit.c).
    while stop(id, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?.is_some() {
        // Taken by itself: it may have been killed since, and its end is not to be taken.
        if let Some(stop) = stop(id, WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)? {
            gone_is_fine(followed.stopped(StoppedThread::heard_of(pid), stop))?;
        }
    }
    let at = Instant::now();
    // An exec by another thread has ended the first one, and the process lives on in a thread
    // that nobody traces (ptrace(2)).
    let tracer = ProcessStatus::of(pid).and_then(|status| status.number("TracerPid"));
    let still = tracer.is_some_and(|tracer| tracer != 0);
    Ok(AtEnd {
        at,
        processor: processor(pid),
        waited: waited(pid),
        upper_in_use: followed.upper_in_use.filter(|_| still),
        executed: followed.executed,
        own_cpu: own_cpu(pid),
    })
}

/// The processor on which a process's first thread runs, or ran last, as long as it is not waited
/// for.
pub fn processor(pid: i32) -> Option<u32> {
    ProcessStat::of(pid)?.processor()
}

/// How long a process's first thread was runnable and did not run, as long as it is not waited for
/// (/proc/PID/schedstat, the second number, in ns: Documentation/scheduler/sched-stats.rst).
pub fn waited(pid: i32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let nanos = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// The processor time of a process's threads, those that have ended, too, as long as it is not
/// waited for (clock_getcpuclockid(3)).
fn own_cpu(pid: i32) -> Option<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write one value each, which outlives them.
    let told = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    told.then(|| Duration::new(seconds, nanos))
}

impl ProgramAtExec {
    fn of(pid: i32) -> Option<ProgramAtExec> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let lost_rights = !geteuid().is_root() && launch::lost_rights(pid);
        Some(ProgramAtExec { maps, own_cpu: own_cpu(pid)?, lost_rights })
    }
}

struct FollowedToEnd {
    begin: Instant,
    signals: u64,
    interrupted: InterruptedCalls,
    upper_in_use: Option<bool>,
    executed: Vec<ProgramAtExec>,
}

impl FollowedToEnd {
    fn from_now() -> FollowedToEnd {
        let begin = Instant::now();
        FollowedToEnd {
            begin,
            signals: 0,
            interrupted: InterruptedCalls::default(),
            upper_in_use: None,
            executed: Vec::new(),
        }
    }

    /// Lets it go on after a stop.
    fn stopped(&mut self, thread: StoppedThread, stop: PtraceStop) -> Result<(), TraceError> {
        match stop {
            PtraceStop::Signal(signal) => return self.pass_on(thread, signal),
            // Stopped with its group, and so until it is told to go on.
            PtraceStop::Group(_) => return thread.listen(),
            PtraceStop::Exit => self.upper_in_use = thread.upper_in_use(),
            PtraceStop::Exec => self.executed.extend(ProgramAtExec::of(thread.tid())),
            _ => {}
        }
        thread.resume(Resume::ToEvent, 0)
    }

    /// Passes a signal on, and lets the process alone if it gets too many.
    fn pass_on(&mut self, thread: StoppedThread, signal: i32) -> Result<(), TraceError> {
        let passed = self.begin.elapsed();
        let now = Nanos(passed.as_nanos() as u64);
        let deliver = signals::deliver(&thread, &mut self.interrupted, signal, now);
        // What cannot be looked at gets its signal.
        let signal = if deliver.unwrap_or(true) { signal } else { 0 };
        self.signals += 1;
        if self.signals > SIGNALS * (1 + passed.as_secs()) {
            return thread.detach(signal);
        }
        thread.resume(Resume::ToEvent, signal)
    }
}

fn start(thread: StoppedThread) -> Result<(), TraceError> {
    let set = thread.set_options(libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_TRACEEXEC);
    let gone_on = thread.resume(Resume::ToEvent, 0);
    set.and(gone_on)
}

/// Waits for news of a child; none of its end, or where there are none.
fn stop(pid: Pid, flags: WaitIdOptions) -> io::Result<Option<PtraceStop>> {
    loop {
        match waitid(WaitId::Pid(pid), flags) {
            Ok(news) => {
                // As wait4 would have it: with an event above the signal.
                let status = news.and_then(|news| news.trapping_signal());
                return Ok(status.and_then(|status| PtraceStop::of(status << 8 | 0x7f)));
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A traced process can be killed between any two calls; its end is then heard of by waiting.
fn gone_is_fine(done: Result<(), TraceError>) -> io::Result<()> {
    match done {
        Ok(()) | Err(TraceError::Gone) => Ok(()),
        Err(TraceError::Failed { error, .. }) => Err(error),
    }
}
