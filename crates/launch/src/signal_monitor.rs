//! Whether a signal was sent to one process or to its whole group: a process beside it knows.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use proc::ProcessStat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::child::{die_with, fork_with, wait_for};
use crate::descriptors::keep_only;
use crate::job_stop::{is_terminal_stop, stop_at_once, stop_by};
use crate::signals::{self, SignalQueue};
use crate::terminal_groups::is_in_own_group;

/// A process of this one's group that only notes which signals come. It ends with this process.
///
/// It is also the one who is still awake when this process has stopped itself together with the
/// command.
pub struct SignalMonitor {
    pid: i32,
    ask: File,
    answers: File,
    /// What it has told and nobody has asked for yet.
    told: Vec<SentSignal>,
}

/// Signal number and sender.
type SentSignal = (i32, i32);

/// A group's members get a signal one after the other; the last of them within this time.
const ROUND: Duration = Duration::from_millis(10);
/// How often a stopped command is looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

const WHAT_CAME: u8 = b'?';
const STOPPED: u8 = b'T';

impl SignalMonitor {
    /// Starts it. The caller has blocked all signals that it is to note, and has one thread: this
    /// forks.
    ///
    /// # Errors
    /// Those of pipe(2) and fork(2).
    pub fn call() -> io::Result<SignalMonitor> {
        let (asked, ask) = io::pipe()?;
        let (answers, answer) = io::pipe()?;
        let front = std::process::id() as i32;
        let (pid, (ask, answers)) = fork_with((ask, answers), |ours| {
            drop(ours);
            let (asked, answer) = (OwnedFd::from(asked).into(), OwnedFd::from(answer).into());
            let _ = MonitorProcess { front, asked, answer, stopped: None }.stand_by();
            0
        })?;
        let (ask, answers) = (OwnedFd::from(ask).into(), OwnedFd::from(answers).into());
        Ok(SignalMonitor { pid, ask, answers, told: Vec::new() })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it got this signal from this sender, too, so that it was sent to the group.
    pub fn saw(&mut self, signal: i32, from: i32) -> bool {
        self.saw_by_now(signal, from) || {
            std::thread::sleep(ROUND);
            self.saw_by_now(signal, from)
        }
    }

    /// The same, for somebody who does not wait until a group has got its signal.
    pub fn saw_by_now(&mut self, signal: i32, from: i32) -> bool {
        // Without a monitor, nobody knows.
        let _ = self.hear();
        let at = self.told.iter().position(|told| *told == (signal, from));
        at.map(|at| self.told.remove(at)).is_some()
    }

    /// Stops this process with a command that `signal` has stopped, until the command goes on; not
    /// if it has gone on already.
    ///
    /// A shell tells by which signal its job was stopped. But where the command is of another group,
    /// this process's may be orphaned, and only SIGSTOP stops it (setpgid(2)). That one cannot be held
    /// back: where the command went on meanwhile, the monitor has this process go on.
    pub fn stop_with(&mut self, command: i32, signal: i32) {
        self.wake_me_when_it_goes_on(command);
        if is_terminal_stop(signal) && is_in_own_group(command) {
            stop_by(signal, || is_stopped(command));
        } else {
            stop_at_once(|| is_stopped(command));
        }
        self.i_am_awake();
    }

    /// Asks what came.
    fn hear(&mut self) -> io::Result<()> {
        // What nobody asked for within a few signals was told to this process only by chance.
        let old = self.told.len().saturating_sub(64);
        self.told.drain(..old);
        self.say(WHAT_CAME, 0)?;
        loop {
            let mut bytes = [[0; 4]; 2];
            self.answers.read_exact(bytes.as_flattened_mut())?;
            match bytes.map(i32::from_le_bytes) {
                [0, _] => return Ok(()),
                [signal, from] => self.told.push((signal, from)),
            }
        }
    }

    /// Has it send SIGCONT to this process as soon as that one is no longer stopped.
    pub(crate) fn wake_me_when_it_goes_on(&mut self, pid: i32) {
        // Without a monitor, somebody else must wake this process.
        let _ = self.say(STOPPED, pid);
    }

    /// Has it wake this process no more. What it sent before has come by then: a wake-up that comes
    /// late would look to a shell as if the job went on.
    pub(crate) fn i_am_awake(&mut self) {
        // Without a monitor, nobody wakes this process.
        let _ = self.hear();
    }

    fn say(&mut self, what: u8, pid: i32) -> io::Result<()> {
        let mut message = [what, 0, 0, 0, 0];
        message[1..].copy_from_slice(&pid.to_le_bytes());
        self.ask.write_all(&message)
    }
}

impl Drop for SignalMonitor {
    fn drop(&mut self) {
        let _ = signals::send(self.pid, libc::SIGKILL);
        let _ = wait_for(self.pid, 0);
    }
}

/// The monitor itself.
struct MonitorProcess {
    front: i32,
    asked: File,
    answer: File,
    /// The command, while the front has stopped with it.
    stopped: Option<i32>,
}

impl MonitorProcess {
    fn stand_by(&mut self) -> io::Result<()> {
        if !die_with(self.front) {
            return Ok(());
        }
        signals::block(&signals::all());
        let signals = SignalQueue::of(&signals::all())?;
        keep_only(&[self.asked.as_fd(), self.answer.as_fd(), signals.as_fd()])?;
        loop {
            let mut ready = [PollFd::new(&self.asked, PollFlags::IN)];
            let _ = poll(&mut ready, self.stopped.map(|_| &LOOK));
            if !ready[0].revents().is_empty() {
                self.listen(&signals)?;
            }
            if self.stopped.is_some_and(|pid| !is_stopped(pid)) {
                self.stopped = None;
                // The parent lives: its death ends this process.
                let _ = signals::send(self.front, libc::SIGCONT);
            }
        }
    }

    fn listen(&mut self, signals: &SignalQueue) -> io::Result<()> {
        let mut message = [0; 5];
        self.asked.read_exact(&mut message)?;
        let [what, pid @ ..] = message;
        if what == STOPPED {
            self.stopped = Some(i32::from_le_bytes(pid));
            return Ok(());
        }
        // Who asks is awake.
        self.stopped = None;
        let mut answer = Vec::new();
        while let Ok(Some(came)) = signals.take() {
            answer.extend(came.signal.to_le_bytes());
            answer.extend(came.from.to_le_bytes());
        }
        answer.extend([0; 8]);
        self.answer.write_all(&answer)
    }
}

/// Whether a process is stopped.
pub(crate) fn is_stopped(pid: i32) -> bool {
    ProcessStat::of(pid).is_some_and(|stat| stat.is_stopped())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_that_was_told_so_wakes_nobody_any_more() {
        let held = signals::set([libc::SIGCONT]);
        let before = signals::block(&held);
        let queue = SignalQueue::of(&held).unwrap();
        let mut sleeper = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = sleeper.id() as i32;
        let signal = |signal| {
            signals::send(pid, signal).unwrap();
        };
        signal(libc::SIGSTOP);
        while !is_stopped(pid) {
            std::thread::yield_now();
        }
        let mut monitor = SignalMonitor::call().unwrap();
        monitor.wake_me_when_it_goes_on(pid);
        monitor.i_am_awake();
        signal(libc::SIGCONT);
        std::thread::sleep(5 * Duration::try_from(LOOK).unwrap());
        let came = queue.take().unwrap();
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        signals::block_only(&before);
        assert!(came.is_none(), "{came:?}");
    }
}
