//! Descriptor calls that an eBPF program reports, where it is allowed: they need not stop.

use recording::{Abi, Blind, Call, Nanos, Outcome};
use tap::{Tap, TapEvent};

use crate::calls::{self, Entry};
use crate::clock;
use crate::tracer::Tracer;

/// Room for 8,700 calls between two stops. It is drained at each, and its brake stops a thread
/// that fills it; a larger one takes longer to make and to give back.
const RING: usize = 1 << 20;

/// What a call returns within the kernel when a signal breaks it off: ERESTARTSYS and its kin
/// (linux/errno.h).
const BROKEN_OFF: std::ops::RangeInclusive<i64> = -516..=-512;

/// An open tap.
pub(crate) struct Tapped {
    tap: Tap,
    /// What the clock of events showed at the recording's start.
    origin: u64,
    /// Whether a process could not be followed.
    unfollowed: bool,
}

impl Tapped {
    /// Opens a tap for these calls; none where that is not allowed. Its brake stops a thread
    /// whose calls fill the ring, so that none is lost.
    pub fn open(numbers: &[u16]) -> Option<Tapped> {
        if !has_descriptors_to_spare() {
            return None;
        }
        let tap = Tap::open(numbers, RING).ok()?;
        tap.brake();
        Some(Tapped { tap, origin: 0, unfollowed: false })
    }

    /// Counts time from now on.
    pub fn begin(&mut self) {
        self.origin = clock::now().0;
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

/// A tap takes a dozen descriptors, which a recorder with few must keep for the recording.
fn has_descriptors_to_spare() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur >= 64 }
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
        if let Some(before) = task.broken_off.take() {
            self.returned(&before, origin);
        }
        if BROKEN_OFF.contains(&event.value) {
            if let Some(task) = self.tasks.get_mut(&event.tid) {
                task.broken_off = Some(*event);
            }
            return;
        }
        self.returned(event, origin);
    }

    /// A thread has stopped or ended: a call that a signal broke off has returned to the
    /// program, or is made again; unless SIGKILL ended it, and then no tracer sees it return.
    pub fn broke_off(&mut self, tid: i32, status: i32) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let Some(event) = task.broken_off.take() else { return };
        let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
        if !killed && let Some(tapped) = &self.tapped {
            let origin = tapped.origin;
            self.returned(&event, origin);
        }
    }

    fn returned(&mut self, event: &TapEvent, origin: u64) {
        let Some(task) = self.tasks.get_mut(&event.tid) else { return };
        let call = Call::new(Abi::X86_64, u64::from(event.number));
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
