//! The guard: a process that serves on if the holder of an image is killed, or, where the kernel is
//! too old for that, ends all that see the image.
//!
//! A FUSE filesystem that nobody serves answers what is not cached with ENOTCONN, and programs take
//! that for "it is not there": Python, whose listing of site-packages is cached, makes an empty
//! namespace package of what it cannot look into, and goes on. So nobody may get such an answer.
//! The guard has the FUSE devices open, too: as long as it lives, what nobody answers waits. It
//! becomes the next holder, with a guard of its own, and answers all again that was asked; or it
//! kills all that see the image first, and only then closes the devices.
//!
//! It has a spare, which takes its place if it is killed itself; it replaces the spare. Both have
//! one thread, so they may fork at any time, which the holder may not.
//!
//! What the kernel mounts needs no holder. There the guard keeps the locks of the overlays, which
//! ranks go on writing to.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
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

use super::door::{self, DoorMessage};
use super::holder::{DONE, MOUNTED, WRONG, wait_for};
use super::standby::{MountedSession, ServedSession};

/// Between two looks at all processes.
const PAUSE: Duration = Duration::from_millis(1);
const NO_TIME: Option<&Timespec> = Some(&Timespec { tv_sec: 0, tv_nsec: 0 });
/// So many looks in a row must find nobody new: one that is forked during a look may be missed, if
/// its parent ends before it is looked at.
const LOOKS: usize = 3;

/// The guard, as the holder knows it, and a spare, as the guard knows it. If the other side of its
/// line is gone without a word, that one has been killed.
pub(super) struct Guard {
    line: UnixStream,
}

impl Guard {
    /// Forks it. The caller must have one thread.
    pub fn start(
        session: &ServedSession<'_>,
        mounted: Option<&MountedSession>,
    ) -> io::Result<Guard> {
        let holder = std::process::id();
        let mounted = mounted.copied();
        forked(session, None, |line| watch(session, line, mounted, holder))
    }

    /// Tells it what it needs to know to serve on.
    pub fn tell(&self, mounted: &MountedSession) -> io::Result<()> {
        let told = serde_json::to_string(mounted)?;
        // One that is gone has a spare; and the image is served as long as this process lives.
        let _ = door::send(&self.line, MOUNTED, &told, &[]);
        Ok(())
    }

    /// The holder leaves, since nobody sees the image any more, or nobody will.
    pub fn dismiss(&self) -> io::Result<()> {
        door::send(&self.line, DONE, "", &[])
    }

    /// The image cannot be served any more, and somebody may see it.
    pub fn end_ranks(&self) -> io::Result<()> {
        door::send(&self.line, WRONG, "", &[])
    }
}

/// Forks a guard or a spare, and waits until it holds nothing that is not its own.
fn forked(
    session: &ServedSession<'_>,
    watched: Option<&UnixStream>,
    body: impl FnOnce(&UnixStream) -> io::Result<()>,
) -> io::Result<Guard> {
    let (line, theirs) = UnixStream::pair()?;
    let own = [theirs.as_fd()].into_iter().chain(watched.map(AsFd::as_fd));
    let kept: Vec<_> = own.chain(session.descriptors()).collect();
    launch::orphan("becalm-guard", &kept, || {
        // As the holder: who asks all processes to end asks the ranks, too.
        signals::block(&signals::all());
        // Whoever started it may have been killed since: then it is needed all the more.
        let _ = door::send(&theirs, DONE, "", &[]);
        body(&theirs)
    })?;
    drop(theirs);
    match door::receive(&line)? {
        Some(_) => Ok(Guard { line }),
        None => Err(io::Error::other("its guard has ended")),
    }
}

/// What a guard does: `line` is the holder's.
fn watch(
    session: &ServedSession<'_>,
    line: &UnixStream,
    mut mounted: Option<MountedSession>,
    holder: u32,
) -> io::Result<()> {
    let mut spare = None;
    loop {
        if spare.is_none() && session.is_served() {
            spare = start_spare(session, line, mounted.as_ref(), holder).ok();
        }
        let holder_line = PollFd::new(line, PollFlags::IN);
        let spare_line =
            spare.as_ref().map(|spare: &Guard| PollFd::new(&spare.line, PollFlags::IN));
        let mut lines: Vec<_> = [holder_line].into_iter().chain(spare_line).collect();
        // One that could not be forked is tried again.
        let patience = Timespec { tv_sec: 1, tv_nsec: 0 };
        let is_short_of_one = session.is_served() && lines.len() < 2;
        rustix::io::retry_on_intr(|| {
            rustix::event::poll(&mut lines, is_short_of_one.then_some(&patience))
        })?;
        let is_spare_gone = lines.get(1).is_some_and(|line| !line.revents().is_empty());
        if lines[0].revents().is_empty() {
            if is_spare_gone {
                spare = None;
                thread::sleep(PAUSE);
            }
            continue;
        }
        match door::receive(line)? {
            Some(DoorMessage { tag: MOUNTED, text, .. }) => {
                mounted = serde_json::from_str(&text).ok();
                if let (Some(spare), Some(mounted)) = (&spare, &mounted) {
                    spare.tell(mounted)?;
                }
                continue;
            }
            Some(DoorMessage { tag: WRONG, .. }) => end_all(session.mark, holder),
            Some(_) => {}
            None if !session.is_served() => wait_for_all(session.mark),
            None => {
                let mounted = mounted.as_ref();
                let taken_over = mounted.map(|mounted| session.take_over(mounted, &mut spare));
                if taken_over.is_none_or(|done| done.is_err()) {
                    end_all(session.mark, holder);
                }
            }
        }
        return spare.map_or(Ok(()), |spare| spare.dismiss());
    }
}

/// A process that takes the guard's place when that is killed.
fn start_spare(
    session: &ServedSession<'_>,
    holder_line: &UnixStream,
    mounted: Option<&MountedSession>,
    holder: u32,
) -> io::Result<Guard> {
    let known = mounted.copied();
    forked(session, Some(holder_line), |guard_line| {
        let mut mounted = known;
        loop {
            match door::receive(guard_line)? {
                Some(DoorMessage { tag: MOUNTED, text, .. }) => {
                    mounted = serde_json::from_str(&text).ok();
                }
                Some(_) => return Ok(()),
                None => break,
            }
        }
        watch(session, holder_line, mounted, holder)
    })
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
