//! A terminal of a test's own, to press keys in.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Instant;

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
        let (master, slave) = open_pair();
        let copy = || slave.try_clone().unwrap();
        command.stdin(copy()).stdout(copy()).stderr(slave.try_clone().unwrap());
        // SAFETY: between fork and exec only setsid and ioctl are called, which are
        // async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() == -1 || libc::ioctl(0, libc::TIOCSCTTY, 0) == -1 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Terminal { keyboard_and_screen: master.into(), child, screen: String::new() }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        self.keyboard_and_screen.write_all(keys.as_bytes()).unwrap();
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
            let mut ready = libc::pollfd {
                fd: self.keyboard_and_screen.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: `ready` is one pollfd, and lives until poll returns.
            let polled = unsafe { libc::poll(&mut ready, 1, left.as_millis() as i32) };
            let mut bytes = [0; 4096];
            let got = if polled == 1 { self.keyboard_and_screen.read(&mut bytes) } else { Ok(0) };
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

fn open_pair() -> (OwnedFd, OwnedFd) {
    let (mut master, mut slave) = (-1, -1);
    let (name, termios, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: the two numbers live until openpty returns; it takes null for all the rest.
    let opened = unsafe { libc::openpty(&mut master, &mut slave, name, termios, size) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: openpty gave two new descriptors, which nobody else has.
    let pair = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    // The command must not inherit them beside its streams.
    for fd in [&pair.0, &pair.1] {
        // SAFETY: the descriptor is open.
        assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
    }
    pair
}
