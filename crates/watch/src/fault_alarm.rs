//! Ends the tracer's wait when a ring of page faults fills.
//!
//! The kernel could send a signal for that itself (O_ASYNC), but then it interrupts its processor for
//! every fault, however seldom a signal is due (kernel/events/core.c, `__perf_event_overflow`): 30 us
//! each in a virtual machine. Who polls is woken when so much is written as was asked for, so a
//! thread does that and nothing else, and passes it on.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use launch::signals;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::process::getpid;
use tap::FaultRing;

/// Has the thread that made it hear of rings that fill: its waits end with EINTR. The thread that
/// polls begins with the first ring, after the command's fork, and ends with the process.
#[derive(Debug, Default)]
pub(crate) struct FaultAlarm {
    polled: Option<OwnedFd>,
}

impl FaultAlarm {
    /// Tells of this ring from now on, for as long as it is there.
    pub fn watch(&mut self, ring: &FaultRing) -> io::Result<()> {
        let polled = match &self.polled {
            Some(polled) => polled,
            None => self.polled.insert(begin()?),
        };
        // Told once: a ring whose thread has ended is ready for good.
        let flags = EventFlags::IN | EventFlags::ET;
        Ok(epoll::add(polled, ring.as_fd(), EventData::new_u64(0), flags)?)
    }
}

/// Begins the thread that polls.
fn begin() -> io::Result<OwnedFd> {
    tap::hear_of_faults();
    let (process, thread) = (getpid().as_raw_pid(), rustix::thread::gettid().as_raw_pid());
    let polled = epoll::create(CreateFlags::CLOEXEC)?;
    let rings = polled.try_clone()?;
    let poll = move || {
        let mut ready = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 16];
        loop {
            match epoll::wait(&rings, &mut ready, None) {
                Ok(count) if ready[..count].iter().any(has_faults) => wake(process, thread),
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    };
    // The new thread has the mask of this one.
    let before = signals::block(&signals::all());
    let begun = std::thread::Builder::new().name("faults".into()).spawn(poll);
    signals::block_only(&before);
    begun?;
    signals::unblock(&signals::set([libc::SIGIO]));
    Ok(polled)
}

/// Whether a ring fills, and its thread has not only ended.
fn has_faults(event: &Event) -> bool {
    let flags = event.flags;
    flags.contains(EventFlags::IN)
}

/// Sends SIGIO to a thread (tgkill(2)).
fn wake(process: i32, thread: i32) {
    // SAFETY: passes numbers. It can only fail where the thread has ended.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGIO) };
}
