//! A process that nothing is recorded of, followed to its end, and looked at there.
//!
//! Its first thread is traced only for that; other threads and children are not. No call stops,
//! but each signal does, which costs it some microseconds: whoever gets many is left alone.

use std::io;
use std::time::{Duration, Instant};

use proc::ProcessStat;
use recording::Nanos;

use crate::ptrace::{self, Resume};
use crate::task::Waiting;
use crate::{arch, signals};

/// So many signals are passed on, and as many more in each second; a process that gets more is
/// traced no longer. Each costs it up to 20 us, where the tracer wakes on another processor.
const SIGNALS: u64 = 100;

/// What a process was found to be at its end.
#[derive(Clone, Copy, Debug)]
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
}

/// Lets a child go on that this thread traces, and that is stopped, until it has ended; it is then
/// still to be waited for. `traced` says whether it is looked at as it ends, for which it stays
/// traced: signals and stops reach it as they would otherwise.
///
/// # Errors
/// Those of ptrace(2) and waitid(2), where the child is another's.
pub fn to_end(pid: i32, traced: bool) -> io::Result<AtEnd> {
    gone_is_fine(if traced { start(pid) } else { ptrace::detach(pid, 0) })?;
    let mut followed = Followed::from_now(pid);
    while wait(pid, libc::WEXITED | libc::WNOWAIT)?.is_stopped {
        // Taken by itself: it may have been killed since, and its end is not to be taken.
        let stop = wait(pid, libc::WSTOPPED | libc::WNOHANG)?;
        if stop.is_stopped {
            gone_is_fine(followed.stopped(stop.status))?;
        }
    }
    let at = Instant::now();
    // An exec by another thread has ended the first one, and the process lives on in a thread
    // that nobody traces (ptrace(2)).
    let still = signals::status_number(pid, "TracerPid").is_some_and(|tracer| tracer != 0);
    let upper_in_use = followed.upper_in_use.filter(|_| still);
    Ok(AtEnd { at, processor: processor(pid), waited: waited(pid), upper_in_use })
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

struct Followed {
    pid: i32,
    begin: Instant,
    signals: u64,
    waiting: Option<Waiting>,
    upper_in_use: Option<bool>,
}

impl Followed {
    fn from_now(pid: i32) -> Followed {
        Followed { pid, begin: Instant::now(), signals: 0, waiting: None, upper_in_use: None }
    }

    /// Lets it go on after a stop: of a signal, with the event above its lowest byte.
    fn stopped(&mut self, status: i32) -> io::Result<()> {
        let signal = status & 0xff;
        match status >> 8 {
            libc::PTRACE_EVENT_EXIT => self.upper_in_use = arch::upper_in_use(self.pid),
            // Stopped with its group, and so until it is told to go on.
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => {
                return ptrace::resume(self.pid, Resume::Listen, 0);
            }
            libc::PTRACE_EVENT_STOP => {}
            _ => return self.pass_on(signal),
        }
        ptrace::resume(self.pid, Resume::Cont, 0)
    }

    /// Passes a signal on, and lets the process alone if it gets too many.
    fn pass_on(&mut self, signal: i32) -> io::Result<()> {
        let passed = self.begin.elapsed();
        let now = Nanos(passed.as_nanos() as u64);
        let is_for_it = signals::deliver(self.pid, &mut self.waiting, signal, now)?;
        let signal = if is_for_it { signal } else { 0 };
        self.signals += 1;
        if self.signals > SIGNALS * (1 + passed.as_secs()) {
            return ptrace::detach(self.pid, signal);
        }
        ptrace::resume(self.pid, Resume::Cont, signal)
    }
}

fn start(pid: i32) -> io::Result<()> {
    ptrace::set_options(pid, libc::PTRACE_O_TRACEEXIT)?;
    ptrace::resume(pid, Resume::Cont, 0)
}

/// What waitid(2) says.
struct News {
    /// Whether it is a stop of one who is traced; else an end, or nothing.
    is_stopped: bool,
    status: i32,
}

/// Waits for news of a child. Stops of one who is traced are told even where they are not asked
/// for, others are not (wait_task_stopped of kernel/exit.c).
fn wait(pid: i32, flags: i32) -> io::Result<News> {
    loop {
        // SAFETY: siginfo_t is plain data, for which zero is valid; the kernel fills it, with a
        // status where there are news of a child.
        let (failed, info, status) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let failed = libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, flags) != 0;
            (failed, info, info.si_status())
        };
        if !failed {
            let is_stopped = info.si_signo != 0 && info.si_code == libc::CLD_TRAPPED;
            return Ok(News { is_stopped, status });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A traced process can be killed between any two calls; its end is then heard of by waiting.
fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        done => done,
    }
}
