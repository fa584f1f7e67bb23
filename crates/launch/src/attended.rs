//! A command that somebody waits for, run without a tracer, to its end.
//!
//! Whoever started becalm knows becalm's process only: signals sent to it are for the command,
//! and when the command stops or ends, becalm must be seen to stop or end. A signal that was sent
//! to the whole process group has reached the command by itself, and must not reach it twice.
//! Which of the two it was, a [`SignalMonitor`] tells.

use std::io;
use std::time::Instant;

use crate::child::{die_with, wait_for};
use crate::job_stop::{a_stop_is_pending, stop_as_a_job};
use crate::lookup::{CannotStart, Command};
use crate::signal_monitor::{SignalMonitor, is_stopped};
use crate::signals::{self, Disposition, ReceivedSignal, SignalQueue, passed_on};
use crate::timed::duration;
use crate::{Ended, Timed, spawn};

/// Runs a command as [`spawn`] does, untraced, and waits for its end, for somebody who waits for
/// this process: signals are passed on, and this process stops when the command stops.
///
/// Should this process be killed, the command is killed with it. What the command leaves running
/// is not waited for. This forks: call it while the process has one thread.
///
/// # Errors
/// [`CannotStart`].
pub fn attended(command: &Command) -> Result<Timed, CannotStart> {
    let held = HeldSignals::hold().map_err(CannotStart::Beside)?;
    let monitor = SignalMonitor::call().map_err(CannotStart::Beside)?;
    let front = std::process::id() as i32;
    let ignores_children = held.ignored_children;
    let spawned = spawn(command, &held.before, &|| prepare(front, ignores_children));
    let mut child = spawned.map_err(|why| match why {
        CannotStart::System(why) => CannotStart::Beside(why),
        why => why,
    })?;
    let start = Instant::now();
    child.open()?;
    let mut attendant = Attendant { command: child.pid, monitor, held };
    let (status, usage) = attendant.wait()?;
    let wall = start.elapsed();
    if let Some(why) = child.never_began() {
        return Err(why);
    }
    Ok(Timed::of(status, wall, &usage))
}

/// Between fork and exec: the command ends with its parent, and treats its children as it would.
fn prepare(parent: i32, ignores_children: bool) -> Result<(), i32> {
    if ignores_children {
        Disposition::IGNORED.give(libc::SIGCHLD);
    }
    if die_with(parent) { Ok(()) } else { Err(libc::ESRCH) }
}

struct Attendant {
    command: i32,
    monitor: SignalMonitor,
    held: HeldSignals,
}

impl Attendant {
    /// Waits for the command's end.
    fn wait(&mut self) -> io::Result<CommandEnd> {
        loop {
            let ReceivedSignal { signal, from, code } = self.held.queue.wait()?;
            if signal == libc::SIGCHLD {
                if let CommandChange::End(end) = self.look()? {
                    return Ok(end);
                }
            } else if code <= 0 && from != self.monitor.pid() && !self.monitor.saw(signal, from) {
                // The kernel's own (a key of the terminal) go to the whole group; the monitor's
                // own only wake.
                if let CommandChange::End(end) = self.pass_on(signal)? {
                    return Ok(end);
                }
            }
        }
    }

    /// Passes on a signal that seems to have been sent to this process alone.
    ///
    /// It may be wrong of a SIGCONT: a stop takes back each SIGCONT that nobody has taken yet
    /// (signal(7)), the monitor's too. A command that has stopped anew must then stay stopped.
    fn pass_on(&mut self, signal: i32) -> io::Result<CommandChange> {
        if signal == libc::SIGCONT {
            if a_stop_is_pending() {
                return Ok(CommandChange::Nothing);
            }
            match self.look()? {
                CommandChange::Nothing => {}
                news => return Ok(news),
            }
        }
        // The child is not reaped.
        let _ = signals::send(self.command, signal);
        Ok(CommandChange::Nothing)
    }

    /// Stops this process until the command goes on; not if it has gone on already.
    fn stop_too(&mut self) {
        self.monitor.wake_me_when_it_goes_on(self.command);
        stop_as_a_job(|| is_stopped(self.command));
        self.monitor.i_am_awake();
    }

    /// Looks what has become of the command, and stops with it if it has stopped.
    fn look(&mut self) -> io::Result<CommandChange> {
        match wait_for(self.command, libc::WNOHANG | libc::WUNTRACED)? {
            None => Ok(CommandChange::Nothing),
            Some((status, _)) if libc::WIFSTOPPED(status) => {
                self.stop_too();
                Ok(CommandChange::Stop)
            }
            Some(end) => Ok(CommandChange::End(end)),
        }
    }
}

/// The wait status and what was used.
type CommandEnd = (i32, libc::rusage);

/// What became of the command since it was last looked at.
enum CommandChange {
    Nothing,
    Stop,
    End(CommandEnd),
}

/// While it lives, signals wait to be taken instead of doing what they do.
struct HeldSignals {
    queue: SignalQueue,
    before: libc::sigset_t,
    ignored_children: bool,
}

impl HeldSignals {
    fn hold() -> io::Result<HeldSignals> {
        let held = signals::set(passed_on().chain([libc::SIGCHLD]));
        let queue = SignalQueue::of(&held)?;
        let before = signals::block(&held);
        // The ends of children that are ignored cannot be waited for (wait(2)).
        let ignored_children = Disposition::DEFAULT.give(libc::SIGCHLD) == Disposition::IGNORED;
        Ok(HeldSignals { queue, before, ignored_children })
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // What still waits was meant for a command that has ended.
        while let Ok(Some(_)) = self.queue.take() {}
        if self.ignored_children {
            Disposition::IGNORED.give(libc::SIGCHLD);
        }
        signals::block_only(&self.before);
    }
}

impl Timed {
    fn of(status: i32, wall: std::time::Duration, usage: &libc::rusage) -> Timed {
        Timed {
            ended: Ended::from_wait(status),
            wall,
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            max_rss: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
        }
    }
}
