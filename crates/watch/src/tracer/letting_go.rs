//! Letting go of everything that is traced, for good, while it runs; and waiting for the command,
//! which nobody traces then.
//!
//! Only a stopped thread can be let go of. Each is interrupted, and let go of at its next stop,
//! whichever that is, with the signal that it was about to get. A child that is born meanwhile is
//! traced from its birth: it is let go of at its first stop. There is no filter: nothing of the
//! recorder is left in any of them.

use std::io;
use std::time::{Duration, Instant};

use launch::Ended;
use proc::{ProcessStat, ProcessStatus, ProcessorTime};
use recording::{Kind, LetGo, Nanos};
use rustc_hash::FxHashSet;

use super::{Next, Tracer};
use crate::clock;
use crate::message::{Messages, TracerMessage};
use crate::mpi_init::MappedRange;
use crate::ptrace::{
    self, AnyChange, PtraceStop, Resume, StopChange, StoppedThread, TraceError, Waited, wait,
    wait_for_any,
};
use crate::signals;
use crate::start_watch::{Waiting, is_of_kernel};
use crate::task::{PendingCall, Task};

/// A thread that has not stopped after so long sleeps where nothing wakes it (a dead server): the
/// recording ends without waiting for it, and it is let go of when it wakes.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked who is gone without a word.
const LOOK: Duration = Duration::from_millis(20);

/// Of so many processes at most it is asked what they read from disks.
const CROWD: usize = 64;

/// The flag of a child that nobody traces, which is taken off for the call.
const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;

/// A terminal's Ctrl-\ reaches all processes of a group at once, one after the other.
const GROUP: Duration = Duration::from_millis(5);

impl Tracer {
    /// Why the start is over, if that was asked for and it is.
    pub(super) fn start_is_over(&mut self) -> Option<LetGo> {
        let Tracer { start, table, log, .. } = self;
        let (now, touched) = (log.now(), log.touches());
        start.as_mut()?.is_over(now, || Waiting { touched, ..waiting(table.tasks()) })
    }

    /// Lets go of all, and returns those that could not be stopped for it.
    pub(super) fn let_go(&mut self, why: &LetGo) -> io::Result<FxHashSet<i32>> {
        self.set_free_all();
        if let Some(unwatched) = &mut self.log.unwatched {
            unwatched.files.has_read(self.main);
        }
        self.take_all_faults();
        self.take_all_unseen();
        self.letting_go = true;
        if why.why == recording::LetGoReason::Asked {
            std::thread::sleep(GROUP);
        }
        let early: Vec<_> = std::mem::take(&mut self.early).into_values().flatten().collect();
        early.into_iter().for_each(|change| self.take_in(change));
        self.interrupt_all();
        let (began, mut looked) = (Instant::now(), Instant::now());
        while self.table.threads() > 0 && began.elapsed() < PATIENCE {
            match wait(-1, libc::WNOHANG)? {
                Waited::Change(change) => self.take_in(change),
                Waited::Nobody => break,
                Waited::Nothing => {
                    clock::wait_for_child(Nanos(1_000_000));
                    if looked.elapsed() >= LOOK {
                        looked = Instant::now();
                        self.drop_untraced();
                        self.interrupt_all();
                    }
                }
            }
        }
        for change in std::mem::take(&mut self.early).into_values().flatten() {
            if let StopChange::Stopped(thread, stop) = change {
                gone_is_fine(thread.detach(signal_of(stop)));
            }
        }
        self.binder.stop();
        Ok(self.table.tasks().map(|task| task.tid).collect())
    }

    /// Has all threads stop, also those that stand still with their group.
    fn interrupt_all(&mut self) {
        for task in self.table.tasks() {
            gone_is_fine(ptrace::interrupt(task.tid));
        }
    }

    /// Drops threads that are gone without a word, by the exec of one that was let go of, and
    /// first threads that have ended before their process.
    fn drop_untraced(&mut self) {
        let own = std::process::id();
        let is_traced = |tid: i32| {
            let tracer = ProcessStatus::of(tid).and_then(|status| status.number("TracerPid"));
            let ended = ProcessStat::of(tid).is_none_or(|stat| stat.state() == b'Z');
            tracer == Some(own.into()) && !ended
        };
        let tids: Vec<i32> = self.table.tasks().map(|task| task.tid).collect();
        for tid in tids.into_iter().filter(|tid| !is_traced(*tid)) {
            self.table.remove_thread(tid);
        }
    }

    /// Lets go of a stopped thread; where that cannot be yet, it goes on to the stop where it can.
    pub(super) fn release(
        &mut self,
        thread: StoppedThread,
        stop: PtraceStop,
        next: Result<Next, TraceError>,
    ) {
        let tid = thread.tid();
        let signal = match next {
            Err(TraceError::Gone) => return thread.killed(),
            Err(error) => {
                self.report(tid, &error);
                0
            }
            Ok(Next::GoOn(signal)) => signal,
            Ok(Next::Listen | Next::Delay(_) | Next::Wait) => 0,
        };
        if let Some(resume) = self.goes_on_first(&thread, stop) {
            return gone_is_fine(thread.resume(resume, signal));
        }
        if let Some(task) = self.table.task(tid) {
            let removed = task.space.borrow_mut().breakpoints.remove(&thread);
            if let Err(error) = removed {
                self.report(tid, &error);
            }
        }
        self.binder.let_go(tid);
        if let Err(error) = thread.detach(signal) {
            self.report(tid, &error);
        }
        self.table.remove_thread(tid);
    }

    /// How a thread goes on that cannot be let go of yet.
    fn goes_on_first(&mut self, thread: &StoppedThread, stop: PtraceStop) -> Option<Resume> {
        let (tid, now) = (thread.tid(), self.log.now());
        let task = self.table.task_mut(tid)?;
        if task.put_back.is_some() || task.clone_flags() & UNTRACED != 0 {
            // A changed argument is put back where the call returns.
            return Some(Resume::ToCall);
        }
        match stop {
            PtraceStop::Call => {
                // It was woken in a call. That stop has taken the interrupt back (kernel/signal.c,
                // ptrace_stop); with another it stops where the kernel restarts calls.
                thread.registers().is_ok_and(|it| it.is_woken()).then(|| {
                    gone_is_fine(ptrace::interrupt(tid));
                    Resume::ToEvent
                })
            }
            PtraceStop::Begin if signals::waits(tid, &[libc::SIGTRAP, libc::SIGQUIT]) => {
                // One that is becalm's own, and must not reach it.
                Some(Resume::ToEvent)
            }
            PtraceStop::Begin => {
                let restarted = signals::restart_at_last(thread, &mut task.interrupted, now);
                if let Err(error) = restarted {
                    self.report(tid, &error);
                }
                None
            }
            _ => None,
        }
    }

    /// Whether a signal is the terminal's Ctrl-\ to becalm's group, which ends the watching and
    /// not the command.
    pub(super) fn is_end_of_watching(&mut self, thread: &StoppedThread, signal: i32) -> bool {
        let Some(start) = &mut self.start else { return false };
        let of_terminal = signal == libc::SIGQUIT
            && matches!(thread.signal_code_and_sender(), Ok((libc::SI_KERNEL, _)))
            && launch::is_in_own_group(thread.tid());
        if of_terminal {
            start.asked();
        }
        of_terminal
    }

    /// Takes in a thread's SIGTRAP, if it is from a breakpoint at MPI_Init.
    pub(super) fn is_breakpoint(&mut self, thread: &StoppedThread) -> Result<bool, TraceError> {
        let Some(task) = self.table.task(thread.tid()) else { return Ok(false) };
        let trapped = task.space.borrow_mut().breakpoints.trapped(thread)?;
        if let (Some(trapped), Some(start)) = (trapped, &mut self.start) {
            start.mpi.trapped(task.group, trapped, self.log.now());
        }
        Ok(trapped.is_some())
    }

    /// A process is at its program's first instruction.
    pub(super) fn await_mpi_of_program(
        &mut self,
        thread: &StoppedThread,
        image: &[u8],
        bias: u64,
    ) -> Result<(), TraceError> {
        let Some(start) = self.start.as_mut().filter(|start| start.wants_mpi()) else {
            return Ok(());
        };
        let Some(task) = self.table.task(thread.tid()) else { return Ok(()) };
        let functions = start.mpi.executed(task.group, image, bias);
        task.space.borrow_mut().breakpoints.set(thread, &functions)
    }

    /// A thread has mapped instructions of a file.
    pub(super) fn await_mpi_of_library(
        &mut self,
        thread: &StoppedThread,
        pending: &PendingCall,
        address: u64,
    ) -> Result<(), TraceError> {
        let Some(start) = self.start.as_mut().filter(|start| start.wants_mpi()) else {
            return Ok(());
        };
        let Some((task, path)) = self.table.task(thread.tid()).zip(pending.path.as_ref()) else {
            return Ok(());
        };
        let range =
            MappedRange { start: address, length: pending.args[1], offset: pending.args[5] };
        let functions = start.mpi.mapped(task.group, &path.bytes, range);
        task.space.borrow_mut().breakpoints.set(thread, &functions)
    }
}

/// What the program waits for.
fn waiting<'a>(tasks: impl Iterator<Item = &'a Task>) -> Waiting {
    let processors = ProcessorTime::default();
    let mut waiting = Waiting { in_call_since: None, faults: 0, touched: 0, processors };
    for (place, task) in tasks.enumerate() {
        if let Some(pending) = task.pending.as_ref().filter(|pending| is_on_file(pending)) {
            let first = waiting.in_call_since.map_or(pending.start, |it| it.min(pending.start));
            waiting.in_call_since = Some(first);
        }
        if place < CROWD
            && let Some(time) = ProcessorTime::of(task.tid)
        {
            waiting.processors.used += time.used;
            waiting.processors.waited += time.waited;
        }
        if place < CROWD && task.tid == task.group {
            let faults = ProcessStat::of(task.tid).and_then(|stat| stat.major_faults());
            waiting.faults += faults.unwrap_or(0);
        }
    }
    waiting
}

fn is_on_file(pending: &PendingCall) -> bool {
    let kind = pending.shape.kind;
    (kind.is_metadata() || kind == Kind::Read)
        && pending.path.as_ref().is_some_and(|path| !is_of_kernel(&path.bytes))
}

/// A thread can be killed at any time: its end, if anybody is told of it, comes next.
fn gone_is_fine(_done: Result<(), TraceError>) {}

/// The signal that a thread was about to get.
fn signal_of(stop: PtraceStop) -> i32 {
    match stop {
        PtraceStop::Signal(signal) => signal,
        _ => 0,
    }
}

/// Waits for the end of a command that nobody traces any more, and lets go of `late`, who could not
/// be stopped before. The front is told each stop, and goes on with the command by itself: a stop
/// after which the command went on and was stopped anew before it was looked at is told as one.
fn wait_for_command(
    main: i32,
    late: &FxHashSet<i32>,
    messages: &mut Messages,
) -> io::Result<Option<Ended>> {
    loop {
        match wait_for_any()? {
            AnyChange::Stopped(tid, stop) if tid == main && !late.contains(&main) => {
                let signal = signal_of(stop);
                messages.send(&TracerMessage::StoppedUntraced { signal, command: main });
            }
            AnyChange::Stopped(tid, stop) => {
                let detached = StoppedThread::heard_of(tid).detach(signal_of(stop));
                gone_is_fine(detached);
            }
            AnyChange::GoesOn(tid) if tid == main => messages.continue_front_if_told_to_stop(),
            AnyChange::Ended(end) if end.tid == main => {
                // One that went on and ended before it was looked at is only told to have ended.
                messages.continue_front_if_told_to_stop();
                return Ok(Some(Ended::from_wait(end.status)));
            }
            AnyChange::GoesOn(_) | AnyChange::Ended(_) | AnyChange::Nothing => {}
            AnyChange::Nobody => return Ok(None),
        }
    }
}

/// Waits for the end of a command that was let go of, and tells the front how it ended.
pub(super) fn tell_end(
    main: i32,
    late: &FxHashSet<i32>,
    messages: &mut Messages,
    blinds: Vec<recording::Blind>,
) -> io::Result<()> {
    if let Some(ended) = wait_for_command(main, late, messages)? {
        messages.send(&TracerMessage::MainEnded { ended, still_running: 0, blinds });
    }
    Ok(())
}
