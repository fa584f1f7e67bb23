//! What the tracer, a process of its own, tells the process that the user started.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use launch::Ended;
use recording::{Blind, LetGo};
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
}

impl Messages {
    pub fn new(to: File, front: Pid) -> Messages {
        Messages { to: Some(to), front: Some(front) }
    }

    /// Where there is no front.
    pub fn to_nobody() -> Messages {
        Messages { to: None, front: None }
    }

    /// Another end, for a thread of its own: a message is written in one piece (pipe(7)).
    pub fn beside(&self) -> std::io::Result<Messages> {
        let to = self.to.as_ref().map(File::try_clone).transpose()?;
        Ok(Messages { to, front: self.front })
    }

    /// A front that is gone needs no message.
    pub fn send(&mut self, message: &TracerMessage) {
        if let (Some(to), Ok(mut line)) = (&mut self.to, serde_json::to_vec(message)) {
            line.push(b'\n');
            let _ = to.write_all(&line);
        }
    }

    /// Stops or continues the front with the command: the shell waits for the front. Only the
    /// tracer does so, which sees the command's stops in their order.
    pub fn signal_front(&self, signal: Signal) {
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
}

impl Inbox {
    pub fn new(from: File) -> Inbox {
        Inbox { from: BufReader::new(from) }
    }

    pub fn file(&self) -> &File {
        self.from.get_ref()
    }

    /// Whether a message is there that needs no further read of the pipe.
    pub fn has_more(&self) -> bool {
        self.from.buffer().contains(&b'\n')
    }

    /// The next message; none if the tracer is gone.
    pub fn next(&mut self) -> Option<TracerMessage> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(length) if length > 0 => serde_json::from_str(&line).ok(),
            _ => None,
        }
    }
}
