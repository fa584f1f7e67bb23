//! What the tracer, a process of its own, tells the process that the user started.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use launch::Ended;
use recording::{Blind, LetGo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use serde::{Deserialize, Serialize};

/// One line of the pipe between them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum TracerMessage {
    /// The command did not start: what to say, and the status that goes with it.
    CannotStart { status: u8, why: String },
    /// It must not be traced.
    Forbidden { error: i32 },
    /// The command has become its program.
    Started,
    /// A signal went to the command itself; `from` is the sender.
    Delivered { signal: i32, from: i32 },
    /// It was stopped by this signal of the terminal: the front is to stop likewise.
    Stopped { signal: i32 },
    /// It was stopped by this signal while nobody traced it: the front is to stop with it.
    StoppedUntraced { signal: i32, command: i32 },
    /// It goes on; a SIGCONT for the front follows.
    GoesOn,
    /// It ended; what it left running is followed further.
    MainEnded { ended: Ended, still_running: usize, blinds: Vec<Blind> },
    /// The command is watched no longer; the recording is as long as it will be.
    LetGo(LetGo),
    /// The recording is written, or could not be.
    Finished { failure: Option<String> },
}

/// The tracer's end.
pub(crate) struct Messages {
    to: Option<File>,
    front: Option<Pid>,
    /// Whether the front was told to stop, and not yet that the command goes on.
    told_to_stop: bool,
}

impl Messages {
    pub fn new(to: File, front: Pid) -> Messages {
        Messages { to: Some(to), front: Some(front), told_to_stop: false }
    }

    /// Where there is no front.
    pub fn to_nobody() -> Messages {
        Messages { to: None, front: None, told_to_stop: false }
    }

    /// A front that is gone needs no message.
    pub fn send(&mut self, message: &TracerMessage) {
        if let (Some(to), Ok(mut line)) = (&mut self.to, serde_json::to_vec(message)) {
            line.push(b'\n');
            let _ = to.write_all(&line);
        }
    }

    /// Stops the front with the command, which this signal has stopped: the shell waits for the front.
    /// Only the tracer does so, which sees the command's stops in their order.
    ///
    /// What stops the front is what the shell tells of. So by a signal of the terminal the front stops
    /// itself, as it holds back those, which go to the whole group; where the command is of another
    /// group, the front's may be orphaned, and only SIGSTOP stops it (setpgid(2)).
    pub fn stop_front(&mut self, signal: i32, command: i32) {
        let in_group = |front: Pid| launch::are_in_one_group(front.as_raw_pid(), command);
        let is_of_group = self.front.is_some_and(in_group);
        let told_before = std::mem::replace(&mut self.told_to_stop, true);
        match is_of_group && launch::is_terminal_stop(signal) {
            // A stop may be reported again: `fg` comes to the front first, which must not stop anew.
            true if told_before => {}
            true => self.send(&TracerMessage::Stopped { signal }),
            false => self.signal_front(Signal::STOP),
        }
    }

    /// Continues the front with the command, if it was stopped while that was traced.
    pub fn continue_front_if_told_to_stop(&mut self) {
        if self.told_to_stop {
            self.continue_front();
        }
    }

    /// Continues the front with the command. Told first: a front that is about to stop looks for it.
    pub fn continue_front(&mut self) {
        self.told_to_stop = false;
        self.send(&TracerMessage::GoesOn);
        self.signal_front(Signal::CONT);
    }

    fn signal_front(&self, signal: Signal) {
        if let Some(parent) = getppid().filter(|parent| Some(*parent) == self.front) {
            // It can have ended since.
            let _ = kill_process(parent, signal);
        }
    }

    /// From here on the front may end, and this process goes on in the background for what the
    /// command left running.
    pub fn outlive_front(&self) {
        // It can only be refused for a signal that is none.
        let _ = set_parent_process_death_signal(None);
    }
}

/// Lets go of what the command inherited: a reader of its pipe must not wait for the tracer.
/// The tracer's own descriptors all close on exec.
pub(crate) fn drop_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let numbers: Vec<i32> = numbers.filter(|fd| *fd > 2).collect();
    for fd in numbers {
        // SAFETY: plain system calls, on a descriptor that nothing in this process uses where it
        // does not close on exec.
        unsafe {
            if libc::fcntl(fd, libc::F_GETFD) == 0 {
                libc::close(fd);
            }
        }
    }
    // Where there is none (a directory without /dev), the command's stay open.
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&null);
        let _ = dup2_stdout(&null);
        let _ = dup2_stderr(&null);
        // It may be one of the three itself.
        std::mem::forget(null);
    }
}

/// The front's end.
pub(crate) struct Inbox {
    from: BufReader<File>,
    /// What was read before its turn.
    read: VecDeque<TracerMessage>,
}

impl Inbox {
    pub fn new(from: File) -> Inbox {
        Inbox { from: BufReader::new(from), read: VecDeque::new() }
    }

    pub fn file(&self) -> &File {
        self.from.get_ref()
    }

    /// Whether a message is there that needs no further read of the pipe.
    pub fn has_more(&self) -> bool {
        !self.read.is_empty() || self.from.buffer().contains(&b'\n')
    }

    /// Whether the command goes on, as far as is told by now, or nobody tells any more.
    pub fn goes_on(&mut self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_there = |inbox: &Inbox| {
            let mut ready = [PollFd::new(inbox.file(), PollFlags::IN)];
            inbox.from.buffer().contains(&b'\n') || poll(&mut ready, Some(&now)) == Ok(1)
        };
        while is_there(self) {
            match self.receive() {
                Some(message) => self.read.push_back(message),
                None => return true,
            }
        }
        self.read.iter().any(|message| matches!(message, TracerMessage::GoesOn))
    }

    /// The next message; none if the tracer is gone.
    pub fn next(&mut self) -> Option<TracerMessage> {
        self.read.pop_front().or_else(|| self.receive())
    }

    fn receive(&mut self) -> Option<TracerMessage> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(length) if length > 0 => serde_json::from_str(&line).ok(),
            _ => None,
        }
    }
}
