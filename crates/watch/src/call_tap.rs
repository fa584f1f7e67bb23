//! Calls that an eBPF program reports, where it is allowed: they need not stop.

use recording::{Blind, Nanos};
use rustix::process::{Resource, getrlimit};
use tap::{CallString, Tap, TapEvent, WatchedCall};

use crate::clock;
use crate::log::RecordingLog;

/// Room for 8,000 calls between two stops. It is drained at each, and its brake stops a thread
/// that fills it; a larger one takes longer to make and to give back.
const RING: usize = 1 << 20;

/// What a call returns within the kernel when a signal breaks it off: ERESTARTSYS and its kin
/// (linux/errno.h).
const BROKEN_OFF: std::ops::RangeInclusive<i64> = -516..=-512;

/// An open tap.
pub(crate) struct CallTap {
    tap: Tap,
    /// What the clock of events showed at the recording's start.
    origin: u64,
    /// Whether a process could not be followed.
    unfollowed: bool,
}

/// A call that a signal broke off, with its strings.
pub(crate) struct BrokenOffCall {
    event: TapEvent,
    strings: [Option<Box<[u8]>>; 2],
}

impl CallTap {
    /// Opens a tap for these calls; none where that is not allowed. Its brake stops a thread
    /// whose calls fill the ring, so that none is lost.
    pub fn open(calls: &[WatchedCall]) -> Option<CallTap> {
        if !has_descriptors_to_spare() {
            return None;
        }
        let tap = Tap::open_for(calls, RING).ok()?;
        tap.brake();
        Some(CallTap { tap, origin: 0, unfollowed: false })
    }

    /// Counts time from now on.
    pub fn begin(&mut self) {
        self.origin = clock::now().0;
    }

    /// When that was, by the events' clock.
    pub fn origin(&self) -> Nanos {
        Nanos(self.origin)
    }

    pub fn follow(&mut self, process: i32) {
        self.unfollowed |= self.tap.follow(process).is_err();
    }

    pub fn forget(&self, process: i32) {
        self.tap.forget(process);
    }

    /// Hands over the calls that have returned without a stop.
    pub fn drain(&mut self, each: impl FnMut(TapEvent, [CallString<'_>; 2])) {
        self.tap.drain_with_strings(each);
    }

    /// Notes calls that the tap could not report.
    pub fn note_lost(&self, log: &mut RecordingLog) {
        let lost = self.tap.lost() + u64::from(self.unfollowed);
        if lost > 0 {
            log.blind(Blind::Lost { calls: lost });
        }
    }
}

/// A tap takes a dozen descriptors, which a recorder with few must keep for the recording.
fn has_descriptors_to_spare() -> bool {
    getrlimit(Resource::Nofile).current.is_none_or(|limit| limit >= 64)
}

/// Whether a call was broken off by a signal: it has returned to the program, or is made again, or
/// its thread was killed.
pub(crate) fn is_broken_off(event: &TapEvent) -> bool {
    BROKEN_OFF.contains(&event.value)
}

impl BrokenOffCall {
    pub fn new(event: TapEvent, strings: [CallString<'_>; 2]) -> BrokenOffCall {
        let kept = |string| match string {
            CallString::Bytes(text) => Some(Box::from(text)),
            _ => None,
        };
        BrokenOffCall { event, strings: strings.map(kept) }
    }

    pub fn event(&self) -> TapEvent {
        self.event
    }

    pub fn strings(&self) -> [CallString<'_>; 2] {
        self.strings.each_ref().map(|kept| match kept {
            Some(text) => CallString::Bytes(text),
            None => CallString::Unreadable,
        })
    }
}
