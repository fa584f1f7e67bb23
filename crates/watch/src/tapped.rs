//! Descriptor calls that an eBPF program reports, where it is allowed: they need not stop.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use recording::{Abi, Blind, Call, Nanos, Outcome};
use tap::{Tap, TapEvent};

use crate::calls::{self, Entry};
use crate::tracer::Tracer;

/// How often the recorder is told again that the ring fills.
const AGAIN: Duration = Duration::from_millis(1);

/// The signal that has the recorder look into the ring while it waits.
const WAKE: i32 = libc::SIGURG;

/// A tap, and the thread that wakes the recorder when its ring fills.
pub(crate) struct Tapped {
    tap: Tap,
    /// What the clock of events showed at the recording's start.
    origin: u64,
    over: Arc<AtomicBool>,
    /// Processes that could not be followed.
    unfollowed: bool,
}

impl Tapped {
    /// Opens a tap for these calls; none where that is not allowed.
    pub fn open(numbers: &[u16]) -> Option<Tapped> {
        let tap = Tap::open(numbers, tap::RING_BYTES).ok()?;
        Some(Tapped { tap, origin: 0, over: Arc::default(), unfollowed: false })
    }

    /// Counts time from now on, and wakes the calling thread when the ring fills.
    pub fn begin(&mut self) {
        self.origin = monotonic();
        // SAFETY: plain system calls; the handler does nothing, and only has `wait4` return.
        let (group, thread) = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
            libc::sigaction(WAKE, &action, std::ptr::null_mut());
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, WAKE);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
            // Not `gettid()`: Rust's library refers to it weakly, which a static link with
            // link-time optimisation leaves unresolved.
            (libc::getpid(), libc::syscall(libc::SYS_gettid) as i32)
        };
        let Ok(ready) = self.tap.ready().try_clone_to_owned() else { return };
        let over = Arc::clone(&self.over);
        let wake = move || {
            while !over.load(Relaxed) {
                let mut poll =
                    libc::pollfd { fd: ready.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                // SAFETY: one entry that outlives the call; a signal to a thread of this
                // process, which lives as long as it does.
                unsafe {
                    if libc::poll(&mut poll, 1, 1000) > 0 {
                        libc::syscall(libc::SYS_tgkill, group, thread, WAKE);
                        std::thread::sleep(AGAIN);
                    }
                }
            }
        };
        // Without the thread a full ring is drained at the next stop, or its loss is told.
        let _ = std::thread::Builder::new().name("wake".into()).spawn(wake);
    }

    pub fn follow(&mut self, process: i32) {
        self.unfollowed |= self.tap.follow(process).is_err();
    }

    pub fn forget(&self, process: i32) {
        self.tap.forget(process);
    }

    /// How many calls are missing, at least.
    fn lost(&self) -> u64 {
        self.tap.lost() + u64::from(self.unfollowed)
    }
}

impl Drop for Tapped {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

extern "C" fn nothing(_: i32) {}

/// CLOCK_MONOTONIC, in ns: the clock of the tap's events and of `Instant`.
fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

impl Tracer {
    /// Takes in the calls that have returned without a stop. Done before anything else is, so
    /// that a process's calls are seen in their order.
    pub fn drain(&mut self) {
        let Some(mut tapped) = self.tapped.take() else { return };
        let origin = tapped.origin;
        tapped.tap.drain(|event| self.reported(&event, origin));
        self.tapped = Some(tapped);
    }

    /// Notes calls that the tap could not report.
    pub fn note_lost(&mut self) {
        let lost = self.tapped.as_ref().map_or(0, Tapped::lost);
        if lost > 0 {
            self.log.blind(Blind::Lost { calls: lost });
        }
    }

    fn reported(&mut self, event: &TapEvent, origin: u64) {
        let Some(task) = self.tasks.get_mut(&event.tid) else { return };
        let call = Call::new(Abi::Native, u64::from(event.number));
        let entry = Entry { call, shape: self.shapes.of(call), args: event.args, ip: event.ip };
        let start = Nanos(event.start.saturating_sub(origin));
        let outcome = match event.value {
            error @ -4095..0 => Outcome::Failed(error.unsigned_abs() as u16),
            value => Outcome::Returned(value),
        };
        let times = (start, start + Nanos(event.took));
        calls::reported(task, &mut self.log, &entry, times, outcome);
    }
}
