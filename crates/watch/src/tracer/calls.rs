//! Stops before and after calls.

use recording::{Abi, Kind, Outcome};

use super::{Next, Tracer};
use crate::arguments::Special;
use crate::decode::{self, CallEntry};
use crate::files::proc_link;
use crate::inject::Delay;
use crate::ptrace::{StoppedThread, TraceError};
use crate::reader::StoppedCall;
use crate::task::PendingCall;
use crate::{clock, effects, faults, memory};

const PROT_EXEC: u64 = libc::PROT_EXEC as u64;

/// The flag of a child that nobody traces.
pub(super) const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;

impl Tracer {
    /// Where every call stops, a thread's stops are entries and exits by turns; whether this
    /// one is an entry.
    pub(super) fn turn(&mut self, tid: i32) -> bool {
        let Some(task) = self.table.task_mut(tid) else { return false };
        task.inside = !task.inside;
        task.inside
    }

    pub(super) fn at_call(
        &mut self,
        thread: &StoppedThread,
        entry: bool,
    ) -> Result<Next, TraceError> {
        match self.reader.call(thread, entry)? {
            StoppedCall::Entry(mut entry) => {
                let answered = match entry.shape.special {
                    Special::Ptrace => self.answer_ptrace(thread, &entry)?,
                    Special::Wait => self.answer_wait(thread, &entry)?,
                    _ => None,
                };
                if let Some(next) = answered {
                    return Ok(next);
                }
                if self.begins_to_map(thread, faults::maps_much(&entry))? {
                    // Recorded even where other mappings are not: how much of a file there is.
                    entry.shape.recorded = true;
                }
                if entry.shape.tapped {
                    if entry.shape.special == Special::Wait {
                        self.table.falls_asleep(thread.tid());
                    }
                    return Ok(Next::GoOn(0));
                }
                if entry.shape.recorded || entry.shape.special != Special::None {
                    self.enter(thread, &entry)?;
                }
            }
            StoppedCall::Foreign => refuse_foreign_stop(thread)?,
            StoppedCall::Exit { value, failed } => {
                let outcome = if failed {
                    Outcome::Failed(value.unsigned_abs().min(4095) as u16)
                } else {
                    Outcome::Returned(value)
                };
                if let Some(delay) = self.leave(thread, outcome) {
                    return Ok(Next::Delay(delay));
                }
            }
            StoppedCall::None => {}
        }
        Ok(Next::GoOn(0))
    }

    fn enter(&mut self, thread: &StoppedThread, entry: &CallEntry) -> Result<(), TraceError> {
        let tid = thread.tid();
        let Some(task) = self.table.task(tid) else { return Ok(()) };
        match entry.shape.special {
            Special::Affinity => self.binder.stop(),
            Special::StackLimit => task.has_loaded(entry.ip),
            Special::Locale if !opens_locale(tid, entry) => return Ok(()),
            Special::Told => {
                self.observers.told(&self.table, tid, path_address(entry));
                return Ok(());
            }
            Special::Exec => {
                self.take_last_faults(tid);
                self.observers.executes(&self.table, &mut self.log, tid);
            }
            _ => {}
        }
        if !entry.shape.recorded && only_entry_matters(entry.shape.special) {
            return Ok(());
        }
        let Some(task) = self.table.task(tid) else { return Ok(()) };
        let pending = decode::at_entry(task, &mut self.log, entry);
        if pending.is_fstat() && self.log.unwatched.is_some() {
            return Ok(());
        }
        if pending.path.as_ref().is_some_and(|path| tells_affinity(&path.bytes)) {
            self.binder.stop();
        }
        // What is left as it was keeps such a child for itself: it has no filter.
        let put_back = match &self.joining {
            Some(_) => Ok(None),
            None => forbid_untraced_clone(thread, &pending),
        };
        self.table.enter_call(tid, pending);
        if let (Some(put_back), Some(task)) = (put_back?, self.table.task_mut(tid)) {
            task.put_back = Some(put_back);
        }
        Ok(())
    }

    /// Takes in a call's exit. A call that its thread is delayed after is recorded once that goes
    /// on: then its delay is returned.
    fn leave(&mut self, thread: &StoppedThread, outcome: Outcome) -> Option<Delay> {
        let tid = thread.tid();
        let pending = self.table.leave_call(tid)?;
        let task = self.table.task_mut(tid)?;
        let mut delay = None;
        if pending.shape.recorded {
            let event = pending.event(task, outcome, self.log.now());
            let injector = self.injector.as_mut();
            delay = injector.and_then(|it| it.decide(&event, &pending, clock::now()));
            if delay.is_none() {
                self.log.call(event, pending.range());
            }
            if let Some(start) = &mut self.start {
                start.returned(&event, pending.path.as_ref().map(|path| &*path.bytes));
            }
        }
        let put_back = task.put_back.take();
        self.take_in_effects(tid, &pending, outcome);
        let put_back = match &self.joining {
            Some(_) => Ok(()),
            None => put_back_flags(thread, &pending, put_back),
        };
        let known = put_back.and_then(|()| self.note_others(thread, &pending, outcome));
        if let Err(error) = known {
            self.report(tid, &error);
        }
        delay
    }

    /// Takes in what a call that has returned changed of its process.
    pub(super) fn take_in_effects(&mut self, tid: i32, pending: &PendingCall, outcome: Outcome) {
        let Some(task) = self.table.task_mut(tid) else { return };
        if let Some(unwatched) = &mut self.log.unwatched {
            unwatched.files.note(pending, outcome);
            if let (Kind::Open, Some(path)) = (pending.shape.kind, &pending.path) {
                unwatched.names.opened(&path.bytes);
            }
        }
        effects::apply(task, &mut self.log, pending, outcome);
    }

    /// Takes in the end of a call that an event has told of, so that it need not stop once more.
    /// Who may be delayed stops there.
    pub(super) fn leave_early(&mut self, thread: &StoppedThread, value: i64) {
        if self.injector.is_none() {
            self.leave(thread, Outcome::Returned(value));
        }
    }

    /// Notes what a call changed of other processes.
    fn note_others(
        &mut self,
        thread: &StoppedThread,
        pending: &PendingCall,
        outcome: Outcome,
    ) -> Result<(), TraceError> {
        match (pending.shape.special, outcome) {
            (Special::Rename, Outcome::Returned(_)) => {
                if let Some(path) = &pending.path {
                    let log = &mut self.log;
                    let asked = |tid: i32, link: &str| {
                        // Where nobody sees descriptors closed, they are asked for each time.
                        let is_known = log.unwatched.is_none() || link == "cwd";
                        let found = is_known.then(|| proc_link(tid, link)).flatten()?;
                        Some(log.full_path(&found))
                    };
                    self.table.renamed(&path.bytes, asked);
                }
                if let Some(unwatched) = &mut self.log.unwatched {
                    unwatched.names.renamed();
                }
            }
            (Special::Map, Outcome::Returned(address)) if pending.flags & PROT_EXEC != 0 => {
                self.await_mpi_of_library(thread, pending, address as u64)?;
            }
            (Special::Wait, Outcome::Returned(child)) => self.reaped(thread, child as i32)?,
            (Special::Waitid, Outcome::Returned(_)) => {
                // siginfo_t: the process id is its fifth number. WNOWAIT leaves the zombie.
                if pending.args[3] & libc::WNOWAIT as u64 == 0
                    && let Ok(id) = memory::read_u64(thread.tid(), pending.args[2].wrapping_add(16))
                {
                    self.reaped(thread, id as i32)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A child may have been made by a call of which an argument was changed. It is put back
    /// before the child's first instruction.
    pub(super) fn put_back_of_child(&mut self, thread: &StoppedThread) -> Result<(), TraceError> {
        let Some(task) = self.table.task_mut(thread.tid()) else { return Ok(()) };
        if task.pending.is_some() {
            return Ok(());
        }
        match task.put_back.take() {
            Some((abi, value)) => put_back_argument(thread, abi, value),
            None => Ok(()),
        }
    }
}

/// A filter of the command's own asked for a tracer. Without becalm there would be none, and the
/// call would fail with ENOSYS (seccomp(2)).
fn refuse_foreign_stop(thread: &StoppedThread) -> Result<(), TraceError> {
    thread.answer(-i64::from(libc::ENOSYS))
}

/// CLONE_UNTRACED would make a child that has the filter and no tracer: its calls would fail. The
/// flag is taken off for the call, and what held it is put back: an argument, which is returned,
/// or memory.
fn forbid_untraced_clone(
    thread: &StoppedThread,
    pending: &PendingCall,
) -> Result<Option<(Abi, u64)>, TraceError> {
    if pending.clone_flags & UNTRACED == 0 {
        return Ok(None);
    }
    let flags = pending.clone_flags & !UNTRACED;
    match pending.shape.special {
        Special::Clone => {
            let mut registers = thread.registers()?;
            registers.set_first_argument(pending.call.abi(), flags);
            thread.set_registers(&registers)?;
            return Ok(Some((pending.call.abi(), pending.clone_flags)));
        }
        Special::Clone3 => write_flags(thread, pending.args[0], flags)?,
        _ => {}
    }
    Ok(None)
}

/// What [`forbid_untraced_clone`] changed is as it was.
fn put_back_flags(
    thread: &StoppedThread,
    pending: &PendingCall,
    argument: Option<(Abi, u64)>,
) -> Result<(), TraceError> {
    if pending.shape.special == Special::Clone3 && pending.clone_flags & UNTRACED != 0 {
        write_flags(thread, pending.args[0], pending.clone_flags)?;
    }
    match argument {
        Some((abi, value)) => put_back_argument(thread, abi, value),
        None => Ok(()),
    }
}

fn put_back_argument(thread: &StoppedThread, abi: Abi, value: u64) -> Result<(), TraceError> {
    let mut registers = thread.registers()?;
    registers.put_back_first_argument(abi, value);
    thread.set_registers(&registers)
}

fn write_flags(thread: &StoppedThread, address: u64, flags: u64) -> Result<(), TraceError> {
    let written = memory::write_u64(thread.tid(), address, flags);
    written.map_err(|error| TraceError::of("process_vm_writev of a call's flags", error))
}

/// Calls that matter to the tracer only before they are made.
fn only_entry_matters(special: Special) -> bool {
    matches!(special, Special::Affinity | Special::StackLimit | Special::Told)
}

/// Where the path of a call that has one lies.
fn path_address(entry: &CallEntry) -> u64 {
    entry.args[usize::from(entry.shape.path.unwrap_or(0))]
}

/// Whether an open is of a locale's file or of what converts its characters (gconv).
fn opens_locale(tid: i32, entry: &CallEntry) -> bool {
    let mut path = Vec::new();
    let has = |path: &[u8], part: &[u8]| path.windows(part.len()).any(|here| here == part);
    memory::read_string(tid, path_address(entry), &mut path).is_ok()
        && (has(&path, b"/locale") || has(&path, b"/gconv"))
}

/// Files of /proc that show a thread's CPUs.
pub(super) fn tells_affinity(path: &[u8]) -> bool {
    path.starts_with(b"/proc/") && path.ends_with(b"/status")
}
