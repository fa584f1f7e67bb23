//! Calls that a tap reports after they have returned.

use std::rc::Rc;

use recording::{Blind, Call, Nanos, Outcome};
use tap::{CallString, TapEvent};

use super::Tracer;
use super::calls::tells_affinity;
use crate::arch;
use crate::arguments::Special;
use crate::call_tap::{BrokenOffCall, is_broken_off};
use crate::decode::{self, CallEntry};
use crate::ptrace::StopChange;
use crate::task::PendingCall;

impl Tracer {
    /// Takes in the calls that the tap has reported. Done before anything else is, so that a
    /// process's calls are seen in their order.
    pub(super) fn drain(&mut self) {
        let Some(mut tap) = self.tap.take() else { return };
        let origin = tap.origin();
        tap.drain(|event, strings| self.reported(event, strings, origin));
        self.tap = Some(tap);
    }

    /// Notes the calls that the tap could not report.
    pub(super) fn note_lost(&mut self) {
        if let Some(tap) = &self.tap {
            tap.note_lost(&mut self.log);
        }
    }

    /// A thread has stopped or ended: a call that a signal broke off has returned to the
    /// program, or is made again; unless SIGKILL ended it, and then no tracer sees it return.
    pub(super) fn broke_off(&mut self, change: &StopChange) {
        let Some(origin) = self.tap.as_ref().map(|tap| tap.origin()) else { return };
        let Some(task) = self.table.task_mut(change.tid()) else { return };
        let Some(call) = task.broken_off.take() else { return };
        if !change.is_killed() {
            self.returned(&call.event(), call.strings(), origin);
        }
    }

    fn reported(&mut self, event: TapEvent, strings: [CallString<'_>; 2], origin: Nanos) {
        let Some(task) = self.table.task_mut(event.tid) else { return };
        let before = task.broken_off.take();
        if is_broken_off(&event) {
            task.broken_off = Some(BrokenOffCall::new(event, strings));
        }
        if let Some(before) = before {
            self.returned(&before.event(), before.strings(), origin);
        }
        if !is_broken_off(&event) {
            self.returned(&event, strings, origin);
        }
    }

    fn returned(&mut self, event: &TapEvent, strings: [CallString<'_>; 2], origin: Nanos) {
        let Some(task) = self.table.task_mut(event.tid) else { return };
        let call = Call::new(arch::NATIVE, u64::from(event.number));
        let shape = self.reader.shapes.of(call);
        let entry = CallEntry { call, shape, args: event.args, ip: event.ip };
        if shape.special == Special::StackLimit && entry.args[1] == u64::from(libc::RLIMIT_STACK) {
            task.has_loaded(entry.ip);
        }
        let start = Nanos(event.start.saturating_sub(origin.0));
        let end = start + Nanos(event.took);
        let outcome = match event.value {
            error @ -4095..0 => Outcome::Failed(error.unsigned_abs() as u16),
            value => Outcome::Returned(value),
        };
        let pending = decode::without_stop(task, &mut self.log, &entry, start, strings);
        if lacks_path(&pending, outcome) {
            self.log.blind(Blind::Unreadable { process: task.process });
        }
        if pending.path.as_ref().is_some_and(|path| tells_affinity(&path.bytes)) {
            self.binder.stop();
        }
        if pending.shape.recorded {
            let recorded = pending.event(task, outcome, end);
            self.log.call(recorded, pending.range());
            if let Some(start) = &mut self.start {
                start.returned(&recorded, pending.path.as_ref().map(|path| &*path.bytes));
            }
        }
        self.take_in_reported(event.tid, &pending, outcome, end);
    }

    /// Takes in what a reported call, which had returned at `end`, changed of its process.
    fn take_in_reported(&mut self, tid: i32, pending: &PendingCall, outcome: Outcome, end: Nanos) {
        let special = pending.shape.special;
        if let (Special::Wait, Outcome::Returned(child)) = (special, outcome) {
            // Its end is watched since that child's birth.
            self.table.reaped(self.table.group_of(tid), child as i32);
        }
        let Some(task) = self.table.task(tid) else { return };
        let files = Rc::clone(&task.files);
        let fd = pending.args[0] as i32;
        if special == Special::Close && files.borrow().is_made_since(fd, pending.start) {
            return;
        }
        self.take_in_effects(tid, pending, outcome);
        if let (Special::Open | Special::Dup, Outcome::Returned(fd)) = (special, outcome) {
            files.borrow_mut().made(fd as i32, end);
        }
    }
}

/// What only a call fails with that has looked its path up.
const LOOKED_UP: [i32; 7] = [
    libc::ENOENT,
    libc::EACCES,
    libc::ENOTDIR,
    libc::ELOOP,
    libc::EISDIR,
    libc::EEXIST,
    libc::EROFS,
];

/// Whether a call had a path that is not known, and the kernel knew it.
fn lacks_path(pending: &PendingCall, outcome: Outcome) -> bool {
    let lacks = |argument: Option<u8>, known: bool| argument.is_some() && !known;
    let was_looked_up = match outcome {
        Outcome::Failed(error) => LOOKED_UP.contains(&i32::from(error)),
        Outcome::Returned(_) => true,
    };
    was_looked_up
        && !pending.by_descriptor
        && (lacks(pending.shape.path, pending.path.is_some())
            || lacks(pending.shape.other_path, pending.other_path.is_some()))
}
