//! The guard: a process that ends all that see an image if its holder is killed.
//!
//! A FUSE filesystem that nobody serves answers what is not cached with ENOTCONN, and programs take
//! that for "it is not there": Python, whose listing of site-packages is cached, makes an empty
//! namespace package of what it cannot look into, and goes on. So nobody may get such an answer.
//! The guard has the FUSE devices open, too: as long as it lives, what nobody answers waits. It
//! kills all that see the image first, and only then closes the devices.
//!
//! What the kernel mounts needs no holder. There the guard keeps the locks of the overlays, which
//! ranks go on writing to.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use launch::signals;
use proc::process_ids;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal};
use rustix::process::{kill_process, pidfd_getfd, pidfd_open, pidfd_send_signal};
use sandbox::join;

use super::door;
use super::holder::{DONE, wait_for};
use super::overlay::OpenedOverlay;

/// Between two looks at all processes.
const PAUSE: Duration = Duration::from_millis(1);
const NO_TIME: Option<&Timespec> = Some(&Timespec { tv_sec: 0, tv_nsec: 0 });
/// So many looks in a row must find nobody new: one that is forked during a look may be missed, if
/// its parent ends before it is looked at.
const LOOKS: usize = 3;

/// The guard, as the holder knows it. If it is gone without a word, the holder has been killed.
pub(super) struct Guard {
    line: UnixStream,
}

impl Guard {
    /// Forks it. The caller must have one thread.
    pub fn start(devices: &[OwnedFd], overlays: &[OpenedOverlay], mark: &str) -> io::Result<Guard> {
        let (line, theirs) = UnixStream::pair()?;
        let overlays = overlays.iter().map(|overlay| overlay.file.as_fd());
        let devices = devices.iter().map(AsFd::as_fd);
        let is_served = devices.len() > 0;
        let kept: Vec<_> = [theirs.as_fd()].into_iter().chain(devices).chain(overlays).collect();
        let holder = std::process::id();
        launch::orphan("becalm-guard", &kept, || {
            // As the holder: who asks all processes to end asks the ranks, too.
            signals::block(&signals::all());
            door::send(&theirs, DONE, "", &[])?;
            match door::receive(&theirs)? {
                Some(_) => {}
                None if is_served => end_all(mark, holder),
                None => wait_for_all(mark),
            }
            Ok(())
        })?;
        drop(theirs);
        // Now it holds nothing else that is the holder's.
        match door::receive(&line)? {
            Some(_) => Ok(Guard { line }),
            None => Err(io::Error::other("its guard has ended")),
        }
    }

    /// The holder leaves, since nobody sees the image any more, or nobody will.
    pub fn dismiss(self) -> io::Result<()> {
        door::send(&self.line, DONE, "", &[])
    }
}

/// Ends all processes that see the mounts, and says so where they say what goes wrong.
fn end_all(mark: &str, holder: u32) {
    let said = format!(
        "becalm: the process that serves the image (becalm-holder, {holder}) was killed: this \
         command is ended with SIGKILL, since files of the image would seem not to be there\n"
    );
    let mut known = HashSet::new();
    let mut told = HashSet::new();
    let mut looks = 0;
    while looks < LOOKS {
        let sees = |pid: &i32| !known.contains(pid) && join::sees_mount(*pid, mark);
        let new: Vec<i32> = process_ids().filter(sees).collect();
        looks = if new.is_empty() { looks + 1 } else { 0 };
        new.iter().for_each(|pid| tell(*pid, &said, &mut told));
        new.iter().for_each(|pid| kill(*pid, mark));
        known.extend(new);
        thread::sleep(PAUSE);
    }
}

/// Writes a line to a process's standard error, once to each that several share, if that does not
/// have to be waited for.
fn tell(pid: i32, line: &str, told: &mut HashSet<PathBuf>) {
    let path = PathBuf::from(format!("/proc/{pid}/fd/2"));
    let Ok(target) = fs::read_link(&path) else { return };
    if !told.insert(target) {
        return;
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = || OpenOptions::new().append(true).custom_flags(flags).open(path);
    // Before Linux 5.6, and where nobody may look into others: sockets cannot be opened, nor pipes
    // that somebody else has made.
    let Some(stream) = own_copy(pid).or_else(|| opened().ok()) else { return };
    let is_ready = rustix::event::poll(&mut [PollFd::new(&stream, PollFlags::OUT)], NO_TIME);
    if is_ready == Ok(1) {
        let _ = (&stream).write_all(line.as_bytes());
    }
}

/// A process's standard error, itself.
fn own_copy(pid: i32) -> Option<File> {
    let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, 2, PidfdGetfdFlags::empty()).ok().map(File::from)
}

fn kill(pid: i32, mark: &str) {
    let Some(number) = Pid::from_raw(pid) else { return };
    // What fails has ended.
    let _ = match pidfd_open(number, PidfdFlags::empty()) {
        // The number may be another's since.
        Ok(process) if join::sees_mount(pid, mark) => pidfd_send_signal(process, Signal::KILL),
        Ok(_) | Err(Errno::SRCH) => Ok(()),
        // Before Linux 5.3.
        Err(_) => kill_process(number, Signal::KILL),
    };
}

/// Returns once nobody sees the mounts any more.
fn wait_for_all(mark: &str) {
    while let Some(pid) = process_ids().find(|pid| join::sees_mount(*pid, mark)) {
        wait_for(pid);
    }
}
