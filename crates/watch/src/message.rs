//! What the tracer, a process of its own, tells the process that the user started.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use launch::Ended;
use recording::Blind;
use serde::{Deserialize, Serialize};

/// One line of the pipe between them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Message {
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
    /// The recording is written, or could not be.
    Finished { failure: Option<String> },
}

/// The tracer's end.
pub(crate) struct Messages {
    to: File,
    front: i32,
}

impl Messages {
    pub fn new(to: File, front: i32) -> Messages {
        Messages { to, front }
    }

    /// A front that is gone needs no message.
    pub fn send(&mut self, message: &Message) {
        if let Ok(mut line) = serde_json::to_vec(message) {
            line.push(b'\n');
            let _ = self.to.write_all(&line);
        }
    }

    /// Stops or continues the front with the command: the shell waits for the front. Only the
    /// tracer does so, which sees the command's stops in their order.
    pub fn signal_front(&self, signal: i32) {
        // SAFETY: a signal to the parent, while it is the parent.
        unsafe {
            if libc::getppid() == self.front {
                libc::kill(self.front, signal);
            }
        }
    }

    /// From here on the front may end, and this process goes on in the background for what the
    /// command left running.
    pub fn outlive_front(&self) {
        // SAFETY: a plain system call.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
    }
}

/// Lets go of what the command inherited: a reader of its pipe must not wait for the tracer.
/// The tracer's own descriptors all close on exec.
pub(crate) fn drop_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let inherited: Vec<i32> = numbers
        // SAFETY: reads a flag of a descriptor, or fails.
        .filter(|fd| *fd > 2 && unsafe { libc::fcntl(*fd, libc::F_GETFD) } == 0)
        .collect();
    // SAFETY: plain system calls on descriptors that nothing in this process uses.
    unsafe {
        for fd in inherited {
            libc::close(fd);
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null >= 0 {
            (0..3).for_each(|fd| {
                libc::dup2(null, fd);
            });
        }
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
    pub fn next(&mut self) -> Option<Message> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(length) if length > 0 => serde_json::from_str(&line).ok(),
            _ => None,
        }
    }
}
