//! Whether a signal was sent to one process or to its whole group: a bystander knows.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use proc::ProcessStat;

use crate::descriptors::keep_only;
use crate::fork;
use crate::signals::{self, Queue};

/// A process of this one's group that only notes which signals come. It ends with this process.
///
/// It is also the one who is still awake when this process has stopped itself together with the
/// command.
pub(crate) struct Witness {
    pid: i32,
    ask: File,
    answers: File,
    /// What it has told and nobody has asked for yet.
    told: Vec<Signal>,
}

/// Signal number and sender.
type Signal = (i32, i32);

/// A group's members get a signal one after the other; the last of them within this time.
const ROUND: Duration = Duration::from_millis(10);
/// How often a stopped command is looked at.
const LOOK: i32 = 20;

const WHAT_CAME: u8 = b'?';
const STOPPED: u8 = b'T';

impl Witness {
    /// Starts it. The caller has blocked all signals that are to be witnessed.
    pub fn call() -> io::Result<Witness> {
        let (asked, ask) = io::pipe()?;
        let (answers, answer) = io::pipe()?;
        let front = std::process::id() as i32;
        // SAFETY: whoever attends a command promises that there is one thread.
        let pid = unsafe { fork() }?;
        if pid == 0 {
            drop((ask, answers));
            let (asked, answer) = (OwnedFd::from(asked).into(), OwnedFd::from(answer).into());
            let _ = Bystander { front, asked, answer, stopped: None }.stand_by();
            // SAFETY: ends the process without running what the front prepared for its end.
            unsafe { libc::_exit(0) };
        }
        Ok(Witness {
            pid,
            ask: OwnedFd::from(ask).into(),
            answers: OwnedFd::from(answers).into(),
            told: Vec::new(),
        })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it got this signal from this sender, too, so that it was sent to the group.
    pub fn saw(&mut self, signal: i32, from: i32) -> bool {
        for wait in [Duration::ZERO, ROUND] {
            std::thread::sleep(wait);
            if self.hear().is_err() {
                return false;
            }
            if let Some(at) = self.told.iter().position(|told| *told == (signal, from)) {
                self.told.remove(at);
                return true;
            }
        }
        false
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
    pub fn wake_me_when_it_goes_on(&mut self, pid: i32) {
        // Without a witness, somebody else must wake this process.
        let _ = self.say(STOPPED, pid);
    }

    /// Has it wake this process no more. What it sent before has come by then: a wake-up that comes
    /// late would look to a shell as if the job went on.
    pub fn i_am_awake(&mut self) {
        // Without a witness, nobody wakes this process.
        let _ = self.hear();
    }

    fn say(&mut self, what: u8, pid: i32) -> io::Result<()> {
        let mut message = [what, 0, 0, 0, 0];
        message[1..].copy_from_slice(&pid.to_le_bytes());
        self.ask.write_all(&message)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // SAFETY: ends and reaps a child of this process.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// The witness itself.
struct Bystander {
    front: i32,
    asked: File,
    answer: File,
    /// The command, while the front has stopped with it.
    stopped: Option<i32>,
}

impl Bystander {
    fn stand_by(&mut self) -> io::Result<()> {
        // SAFETY: plain system calls.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != self.front {
                return Ok(());
            }
        }
        signals::block(&signals::all());
        let signals = Queue::of(&signals::all())?;
        keep_only(&[self.asked.as_fd(), self.answer.as_fd(), signals.as_fd()])?;
        loop {
            let mut ready =
                libc::pollfd { fd: self.asked.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let timeout = if self.stopped.is_some() { LOOK } else { -1 };
            // SAFETY: one entry, which outlives the call.
            unsafe { libc::poll(&mut ready, 1, timeout) };
            if ready.revents != 0 {
                self.listen(&signals)?;
            }
            if self.stopped.is_some_and(|pid| !is_stopped(pid)) {
                self.stopped = None;
                // SAFETY: a signal to the parent, whose death ends this process.
                unsafe { libc::kill(self.front, libc::SIGCONT) };
            }
        }
    }

    fn listen(&mut self, signals: &Queue) -> io::Result<()> {
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
    fn a_witness_that_was_told_so_wakes_nobody_any_more() {
        let held = signals::set([libc::SIGCONT]);
        let before = signals::block(&held);
        let queue = Queue::of(&held).unwrap();
        let mut sleeper = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = sleeper.id() as i32;
        let signal = |signal| {
            // SAFETY: a signal to a child of this process.
            assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        };
        signal(libc::SIGSTOP);
        while !is_stopped(pid) {
            std::thread::yield_now();
        }
        let mut witness = Witness::call().unwrap();
        witness.wake_me_when_it_goes_on(pid);
        witness.i_am_awake();
        signal(libc::SIGCONT);
        std::thread::sleep(Duration::from_millis(5 * LOOK as u64));
        let came = queue.take().unwrap();
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        signals::block_only(&before);
        assert!(came.is_none(), "{came:?}");
    }
}
