//! Descriptor calls that an eBPF program reports, where it is allowed: they need not stop.

use recording::{Blind, Call, Nanos, Outcome};
use rustix::process::{Resource, getrlimit};
use tap::{Tap, TapEvent};

use crate::decode::CallEntry;
use crate::log::RecordingLog;
use crate::ptrace::StopChange;
use crate::shape::CallShapes;
use crate::table::ProcessTable;
use crate::{arch, clock, effects};

/// Room for 8,700 calls between two stops. It is drained at each, and its brake stops a thread
/// that fills it; a larger one takes longer to make and to give back.
const RING: usize = 1 << 20;

/// What a call returns within the kernel when a signal breaks it off: ERESTARTSYS and its kin
/// (linux/errno.h).
const BROKEN_OFF: std::ops::RangeInclusive<i64> = -516..=-512;

/// An open tap.
pub(crate) struct DescriptorTap {
    tap: Tap,
    /// What the clock of events showed at the recording's start.
    origin: u64,
    /// Whether a process could not be followed.
    unfollowed: bool,
}

/// Where what the tap reports goes.
pub(crate) struct TapSink<'a> {
    pub table: &'a mut ProcessTable,
    pub log: &'a mut RecordingLog,
    pub shapes: &'a CallShapes,
}

impl DescriptorTap {
    /// Opens a tap for these calls; none where that is not allowed. Its brake stops a thread
    /// whose calls fill the ring, so that none is lost.
    pub fn open(numbers: &[u16]) -> Option<DescriptorTap> {
        if !has_descriptors_to_spare() {
            return None;
        }
        let tap = Tap::open(numbers, RING).ok()?;
        tap.brake();
        Some(DescriptorTap { tap, origin: 0, unfollowed: false })
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

    /// Takes in the calls that have returned without a stop. Done before anything else is, so
    /// that a process's calls are seen in their order.
    pub fn drain(&mut self, mut to: TapSink<'_>) {
        let origin = self.origin;
        self.tap.drain(|event| to.reported(&event, origin));
    }

    /// A thread has stopped or ended: a call that a signal broke off has returned to the
    /// program, or is made again; unless SIGKILL ended it, and then no tracer sees it return.
    pub fn broke_off(&self, change: &StopChange, mut to: TapSink<'_>) {
        let Some(task) = to.table.task_mut(change.tid()) else { return };
        let Some(event) = task.broken_off.take() else { return };
        if !change.is_killed() {
            to.returned(&event, self.origin);
        }
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

impl TapSink<'_> {
    fn reported(&mut self, event: &TapEvent, origin: u64) {
        let Some(task) = self.table.task_mut(event.tid) else { return };
        if let Some(before) = task.broken_off.take() {
            self.returned(&before, origin);
        }
        if BROKEN_OFF.contains(&event.value) {
            if let Some(task) = self.table.task_mut(event.tid) {
                task.broken_off = Some(*event);
            }
            return;
        }
        self.returned(event, origin);
    }

    fn returned(&mut self, event: &TapEvent, origin: u64) {
        let Some(task) = self.table.task_mut(event.tid) else { return };
        let call = Call::new(arch::NATIVE, u64::from(event.number));
        let entry = CallEntry { call, shape: self.shapes.of(call), args: event.args, ip: event.ip };
        let start = Nanos(event.start.saturating_sub(origin));
        let outcome = match event.value {
            error @ -4095..0 => Outcome::Failed(error.unsigned_abs() as u16),
            value => Outcome::Returned(value),
        };
        let times = (start, start + Nanos(event.took));
        effects::reported(task, self.log, &entry, times, outcome);
    }
}
