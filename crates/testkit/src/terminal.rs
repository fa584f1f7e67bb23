//! A terminal of a test's own, to press keys in.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::live::LIMIT;

/// A pseudo terminal, and the command that leads its session.
pub struct Terminal {
    keyboard_and_screen: File,
    child: Child,
    screen: String,
}

impl Terminal {
    /// Starts a command as the leader of a session on a new terminal.
    pub fn start(command: &mut Command) -> Terminal {
        Terminal::start_sized(command, None)
    }

    /// The same on a terminal of so many columns and lines.
    pub fn start_sized(command: &mut Command, size: Option<(u16, u16)>) -> Terminal {
        let (master, slave) = open_pair();
        if let Some(size) = size {
            resize(&master, size);
        }
        let copy = || slave.try_clone().unwrap();
        command.stdin(copy()).stdout(copy()).stderr(slave.try_clone().unwrap());
        let lead = || {
            rustix::process::setsid()?;
            Ok(rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?)
        };
        // SAFETY: between fork and exec only setsid and ioctl are called, which are
        // async-signal-safe.
        unsafe { command.pre_exec(lead) };
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        // What has no terminal open any more is its end: neither may the command, while it is kept.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Terminal { keyboard_and_screen: master.into(), child, screen: String::new() }
    }

    /// Starts an interactive bash that shows the prompt `ready: `.
    pub fn bash() -> Terminal {
        let mut shell = Command::new("bash");
        shell.args(["--norc", "--noprofile", "--noediting", "-i"]);
        let mut terminal = Terminal::start(shell.env("PS1", "ready: ").env("PS2", ""));
        terminal.expect("ready: ");
        // The echo of what is typed would look like what is waited for.
        terminal.send("stty -echo\n");
        terminal.expect("ready: ");
        terminal
    }

    /// Has the command in the foreground, which answers each line by `read LINE`, answer these, and
    /// stopped and resumed after each.
    pub fn stop_and_resume(&mut self, lines: &[&str]) {
        for line in lines {
            self.send(&format!("{line}\n"));
            self.expect(&format!("read {line}"));
            self.send("\x1a");
            self.expect("Stopped");
            self.expect("ready: ");
            // The number of the signal, SIGTSTP, as without becalm.
            self.send("echo status $?\n");
            self.expect("status 148");
            self.expect("ready: ");
            self.send("fg\n");
            // As a person would: a stop that comes before becalm has woken from the one before (50 us)
            // stops it at once, and the command only then (launch's job_stop takes both).
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends the command in the foreground by a line, and sees with which status it ends.
    pub fn end_with(&mut self, line: &str, answer: &str, status: u8) {
        self.send(&format!("{line}\n"));
        self.expect(answer);
        self.sees_status(status);
    }

    /// Waits for the prompt, and sees with which status the command before it ended.
    pub fn sees_status(&mut self, status: u8) {
        self.expect("ready: ");
        self.send("echo status $?\n");
        self.expect(&format!("status {status}"));
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        self.keyboard_and_screen.write_all(keys.as_bytes()).unwrap();
    }

    /// Gives the terminal another size: columns and lines.
    pub fn resize(&self, size: (u16, u16)) {
        resize(&self.keyboard_and_screen, size);
    }

    /// Sends the command a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
    }

    /// What was written to the screen, once there is anything; nothing at the end.
    pub fn read(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 16];
        // EIO: nobody has the terminal open any more.
        let got = self.keyboard_and_screen.read(&mut bytes).unwrap_or(0);
        bytes.truncate(got);
        bytes
    }

    /// Whether anything is written to the screen within this time.
    pub fn is_written_to(&self, within: std::time::Duration) -> bool {
        let mut ready = [PollFd::new(&self.keyboard_and_screen, PollFlags::IN)];
        poll(&mut ready, Some(&within.try_into().unwrap())) == Ok(1)
    }

    /// How the command ends.
    pub fn ended(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    /// Reads the screen until `text` has come, and gives what came before it.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.screen.find(text) {
                let before = self.screen[..at].to_owned();
                self.screen.drain(..at + text.len());
                return before;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let mut ready = [PollFd::new(&self.keyboard_and_screen, PollFlags::IN)];
            let is_ready = poll(&mut ready, Some(&left.try_into().unwrap())) == Ok(1);
            let mut bytes = [0; 4096];
            let got = if is_ready { self.keyboard_and_screen.read(&mut bytes) } else { Ok(0) };
            match got {
                Ok(got) if got > 0 => {
                    self.screen.push_str(&String::from_utf8_lossy(&bytes[..got]));
                }
                // EIO: nobody has the terminal open any more.
                _ => panic!("{text:?} never came; the screen shows {:?}", self.screen),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resize(terminal: impl std::os::fd::AsFd, (columns, lines): (u16, u16)) {
    let size = Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

/// The command must not inherit them beside its streams.
fn open_pair() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    (master, slave)
}
