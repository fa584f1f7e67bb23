//! Joining processes that run already, with all below them, and leaving them as they were.
//!
//! A thread is joined by PTRACE_SEIZE, which it does not notice, and then interrupted once. What it
//! makes from then on is traced from its birth. What it had made before is looked for when it is
//! joined, and once more at its first stop: then it stands still, and none of its calls is under way
//! that was begun untraced.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use recording::{Blind, Call, LetGo, LetGoReason, Nanos, ProcessId, StartCall};
use rustc_hash::{FxHashMap, FxHashSet};

use super::stop_the_world::StoppedWorld;
use super::{Tracer, TracerParts};
use crate::attach::{family, standing};
use crate::fault_alarm::FaultAlarm;
use crate::observer::{Executed, Stopped};
use crate::ptrace::{self, CallSource, PtraceStop, StoppedThread, SyscallInfo, TraceError};
use crate::ptrace::{Waited, wait};
use crate::start_watch::LOOK;
use crate::table::ProcessTable;
use crate::{arch, clock, decode, signals};

/// What a thread shares with its process.
const OF_A_THREAD: u64 =
    (libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS) as u64;

/// So long after the latest first stop those that were interrupted, and have not stopped yet, are waited for
/// before they are left.
const PATIENCE: Duration = Duration::from_millis(300);

/// So long nothing stops any more before all are left.
const SETTLED: Duration = Duration::from_millis(50);

/// What is being joined.
#[derive(Default)]
pub(crate) struct Joining {
    /// Processes whose first threads are traced by now, with their parents.
    processes: VecDeque<(i32, Option<i32>)>,
    /// Threads that were interrupted and have not stopped yet.
    interrupted: FxHashSet<i32>,
    /// They are about to be left: see [`Tracer::leave_joined`].
    leaving: bool,
}

impl Tracer {
    /// Follows nobody yet.
    pub fn of_nobody(parts: TracerParts) -> Tracer {
        #[rustfmt::skip]
        let TracerParts {
            log, reader, observers, tap, injector, binder, messages, start, page_faults, ..
        } = parts;
        let (table, early) = (ProcessTable::default(), FxHashMap::default());
        let (world, looked, main) = (StoppedWorld::default(), Nanos(0), 0);
        #[rustfmt::skip]
        let tracer = Tracer {
            table, log, reader, observers, tap, injector, binder, messages, early, world, looked, main,
            joining: None, main_ended: false, start, letting_go: false,
            page_faults: page_faults.then(FaultAlarm::default),
        };
        tracer
    }

    /// Joins a process whose first thread is traced by now, and all below it.
    pub fn join(&mut self, pid: i32) {
        let parent = proc::ProcessStatus::of(pid).and_then(|status| status.number("PPid"));
        let parent = parent.map(|parent| parent as i32);
        let parent = parent.filter(|parent| self.table.process(*parent).is_some());
        self.joining_mut().processes.push_back((pid, parent));
        self.join_processes();
    }

    fn joining_mut(&mut self) -> &mut Joining {
        self.joining.get_or_insert_default()
    }

    fn join_processes(&mut self) {
        while let Some((pid, parent)) = self.joining_mut().processes.pop_front() {
            if self.table.task(pid).is_none() {
                self.join_process(pid, parent);
                self.join_relatives(pid);
            }
        }
    }

    fn join_process(&mut self, pid: i32, parent: Option<i32>) {
        let standing = standing::read(pid, &mut self.log);
        self.add(standing.task, parent, Some(StartCall::Joined));
        let Some(process) = self.table.process_mut(pid) else { return };
        process.children = standing::used(pid);
        // Every thread of what is joined stops before its end.
        process.watches_exit = true;
        let id = process.id;
        let (exec, wide, bias) = (standing.exec, standing.wide, standing.bias);
        let executed =
            Executed { image: &standing.image, bias, argv: &exec.argv, cwd: &standing.cwd, wide };
        self.observers.executed(&Stopped { pid, tid: pid }, &executed);
        self.log.mapped(&standing.image);
        self.log.executed(id, exec);
        if let Some(task) = self.table.task(pid) {
            if !task.directories.borrow().root.is_empty() {
                self.log.blind(Blind::OtherRoot { process: id });
            }
            self.log.mounts_changed(task);
        }
        self.interrupt(pid);
    }

    /// Joins what there is besides of a joined thread's process, and what the thread has made.
    fn join_relatives(&mut self, tid: i32) {
        let group = self.table.group_of(tid);
        let mut look_at = vec![tid];
        for thread in family::threads(group) {
            if self.table.task(thread).is_none() && self.seize(thread, group) {
                self.join_thread(thread, group);
                look_at.push(thread);
            }
        }
        for thread in look_at {
            for child in family::children(group, thread) {
                if self.table.process(child).is_none() && self.seize(child, group) {
                    self.joining_mut().processes.push_back((child, Some(group)));
                }
            }
        }
    }

    fn join_thread(&mut self, tid: i32, group: i32) {
        let Some(first) = self.table.task(group) else { return };
        let task = first.child(tid, OF_A_THREAD);
        self.add(task, Some(group), None);
        self.interrupt(tid);
    }

    /// Traces a thread; whether it has to be taken in now. One that cannot be is said to be
    /// missing; not one that is gone, or that is traced from its birth.
    fn seize(&mut self, tid: i32, group: i32) -> bool {
        match ptrace::seize(tid, self.reader.options) {
            Ok(()) => return true,
            Err(TraceError::Failed { request, error }) if !is_ours_or_over(tid) => {
                let process = self.table.process(group).map_or(ProcessId(0), |it| it.id);
                let error = format!("{request} of {tid}: {error}");
                self.log.blind(Blind::RequestFailed { process, error });
            }
            Err(_) => {}
        }
        false
    }

    /// Has a thread stop once, wherever it is.
    fn interrupt(&mut self, tid: i32) {
        match ptrace::interrupt(tid) {
            Ok(()) => {
                self.joining_mut().interrupted.insert(tid);
            }
            Err(error) => self.report(tid, &error),
        }
    }

    /// The first stop of a joined thread, whatever it is for.
    pub(super) fn at_first_stop(
        &mut self,
        thread: &StoppedThread,
        stop: PtraceStop,
    ) -> Result<(), TraceError> {
        let tid = thread.tid();
        if !self.joining.as_mut().is_some_and(|joining| joining.interrupted.remove(&tid)) {
            return Ok(());
        }
        if self.reader.source == CallSource::Kernel {
            self.reader.source = thread.call_source();
        }
        if matches!(stop, PtraceStop::Birth | PtraceStop::Exec | PtraceStop::Other)
            && let Some(task) = self.table.task_mut(tid)
        {
            // It stands within a call, whose end comes next and whose beginning nobody saw.
            task.inside = true;
        }
        let now = self.log.now();
        // One that is stopped with its group was interrupted by that, as it would be untraced.
        if stop == PtraceStop::Begin
            && let Some(task) = self.table.task_mut(tid)
        {
            signals::restart(thread, &mut task.interrupted, now)?;
        }
        self.join_relatives(tid);
        self.join_processes();
        Ok(())
    }

    /// The flags of a birth whose call began before its thread was joined.
    pub(super) fn flags_of_unseen(&self, thread: &StoppedThread) -> Result<u64, TraceError> {
        let SyscallInfo::Entry { arch, number, args, .. } =
            thread.syscall_info(CallSource::Registers, true)?
        else {
            return Ok(0);
        };
        let (abi, number) = arch::table(arch, number);
        let special = self.reader.shapes.of(Call::new(abi, number)).special;
        Ok(decode::clone_flags(thread.tid(), special, args[0]))
    }

    /// Follows until the last has ended, one of these signals waits, or what was asked for has
    /// come: why that is.
    pub fn follow_joined(&mut self, asked: &[i32]) -> io::Result<Option<LetGo>> {
        loop {
            match wait(-1, libc::WNOHANG)? {
                Waited::Change(change) => {
                    self.take_in(change);
                    self.serve_waiting();
                }
                Waited::Nothing => clock::wait_for_child(LOOK),
                Waited::Nobody => return Ok(None),
            }
            if let Some(over) = self.start_is_over() {
                return Ok(Some(over));
            }
            if launch::signals::is_pending(asked.iter().copied()) {
                let (at, why) = (self.log.now(), LetGoReason::Asked);
                return Ok(Some(LetGo { at, why, mpi_init: None }));
            }
        }
    }

    /// Serves all that wait once.
    pub(super) fn serve_waiting(&mut self) {
        let mut ready = Vec::new();
        while let Ok(Waited::Change(change)) = wait(-1, libc::WNOHANG) {
            ready.push(change);
        }
        ready.into_iter().for_each(|change| self.take_in(change));
    }

    /// Whether threads that go on are to stop at no call.
    pub(super) fn is_leaving(&self) -> bool {
        self.joining.as_ref().is_some_and(|joining| joining.leaving)
    }

    fn not_stopped_yet(&self) -> usize {
        self.joining.as_ref().map_or(0, |joining| joining.interrupted.len())
    }

    /// Leaves the joined processes, how many they are, to themselves.
    ///
    /// That is, sees to it that none stands still for this tracer: with the end of its thread the
    /// kernel lets go of all at once, wherever they are, and no call of theirs is broken off for it
    /// (exit_ptrace of kernel/ptrace.c): but one whose entry it stands at, since it is woken from there as
    /// by a signal (__ptrace_unlink). So none stops at a call any more that goes on from here. Another stop that
    /// nobody has heard of by then is none, and its signal is delivered.
    pub fn leave_joined(mut self) -> (crate::log::RecordingLog, usize) {
        self.joining_mut().leaving = true;
        let (mut last_first, mut last) = (Instant::now(), Instant::now());
        while last_first.elapsed() < PATIENCE
            && (self.not_stopped_yet() > 0 || last.elapsed() < SETTLED)
        {
            match wait(-1, libc::WNOHANG) {
                Ok(Waited::Change(change)) => {
                    let before = self.not_stopped_yet();
                    self.take_in(change);
                    last = Instant::now();
                    if self.not_stopped_yet() < before {
                        last_first = last;
                    }
                }
                Ok(Waited::Nothing) => clock::wait_for_child(Nanos(5_000_000)),
                _ => break,
            }
        }
        self.release_all();
        (self.log, self.table.running())
    }
}

/// Whether a thread that cannot be traced has this thread for its tracer, or has ended.
fn is_ours_or_over(tid: i32) -> bool {
    let Some(status) = proc::ProcessStatus::of(tid) else { return true };
    let tracer = rustix::thread::gettid().as_raw_nonzero().get();
    status.number("TracerPid") == u64::try_from(tracer).ok()
        || status.field("State").is_some_and(|state| state.starts_with(['Z', 'X']))
}
