//! The tracer: waits for what happens to any traced thread, takes it in, lets the thread go on.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | the parts, the loop, and how a stopped thread goes on |
//! | `calls` | stops before and after calls |
//! | `tapped` | calls that a tap reports |
//! | `touches` | page faults |
//! | `births` | births, execs and ends of threads and processes |
//! | `joining` | processes that ran already: joined, and left |
//! | `letting_go` | the end of the watching before the end of the command |
//! | `stop_the_world` | threads that are stopped for another one of their own |

mod births;
mod calls;
mod joining;
mod letting_go;
mod stop_the_world;
mod tapped;
mod touches;

use std::collections::VecDeque;
use std::io;

use recording::{Blind, Event, LetGo, Nanos, ProcessId, Record};
use rustc_hash::{FxHashMap, FxHashSet};

use joining::Joining;

use crate::bind::CpuBinder;
use crate::call_tap::CallTap;
use crate::inject::{Delay, DelayInjector};
use crate::log::RecordingLog;
use crate::message::{Messages, TracerMessage};
use crate::observers::Observers;
use crate::ptrace::{PtraceStop, Resume, StopChange, StoppedThread, TraceError, Waited, wait};
use crate::reader::CallReader;
use crate::start_watch::StartWatch;
use crate::table::ProcessTable;
use crate::task::Task;
use crate::{clock, fault_alarm, signals};
use stop_the_world::StoppedWorld;

/// Threads further down the kernel's list must get their turn when the first one stops
/// thousands of times a second: after so many stops, all that wait are served once.
const FAIR: u32 = 64;

/// How often it is looked which threads sleep, and among how many at most.
const LOOK: Nanos = Nanos(10_000_000);
const CROWD: usize = 64;

/// Who has a part in the recording.
pub(crate) struct TracerParts {
    pub log: RecordingLog,
    pub reader: CallReader,
    pub observers: Observers,
    pub tap: Option<CallTap>,
    pub injector: Option<DelayInjector>,
    pub binder: CpuBinder,
    pub messages: Messages,
    /// Whether becalm itself runs under a filter.
    pub outer_filter: bool,
    /// There where the watching may end before the command.
    pub start: Option<StartWatch>,
    /// Whether page faults are watched.
    pub page_faults: bool,
}

/// Follows the command and all it starts.
pub(crate) struct Tracer {
    table: ProcessTable,
    log: RecordingLog,
    reader: CallReader,
    observers: Observers,
    tap: Option<CallTap>,
    injector: Option<DelayInjector>,
    binder: CpuBinder,
    messages: Messages,
    /// What children did before their parent's event told of them.
    early: FxHashMap<i32, VecDeque<StopChange>>,
    world: StoppedWorld,
    /// When it was looked last which threads sleep.
    looked: Nanos,
    /// The command's process; 0 where processes were joined that ran already.
    main: i32,
    /// There if they were.
    joining: Option<Joining>,
    main_ended: bool,
    start: Option<StartWatch>,
    /// Whether whoever stops is let go of.
    letting_go: bool,
    page_faults: Option<fault_alarm::FaultAlarm>,
}

/// What becomes of a stopped thread.
enum Next {
    /// It goes on, with a signal or none (0).
    GoOn(i32),
    /// It stays stopped with its group.
    Listen,
    /// It stays stopped for a while, at the end of a call.
    Delay(Delay),
    /// It stays stopped until another thread has stopped.
    Wait,
}

impl Tracer {
    /// Begins with the command, which stands at its exec.
    pub fn begin(parts: TracerParts, task: Task, thread: StoppedThread) -> Tracer {
        let outer_filter = parts.outer_filter;
        let mut tracer = Tracer { main: thread.tid(), ..Tracer::of_nobody(parts) };
        tracer.adopt_main(task);
        if outer_filter {
            tracer.log.blind(Blind::OuterFilter);
        }
        tracer.messages.send(&TracerMessage::Started);
        let watched = match tracer.log.unwatched {
            Some(_) => tracer.watch_exit(&thread, tracer.main),
            None => Ok(()),
        };
        let next = watched.and_then(|()| tracer.note_exec(&thread)).map(|()| Next::GoOn(0));
        tracer.carry_on(thread, PtraceStop::Exec, next);
        tracer
    }

    /// Follows until the last has ended, and ends the recording.
    pub fn run(mut self) {
        let mut late = FxHashSet::default();
        let followed = self.follow().and_then(|over| match &over {
            None => Ok(()),
            Some(why) => {
                self.log.let_go(why);
                self.messages.send(&TracerMessage::LetGo(why.clone()));
                late = self.let_go(why)?;
                Ok(())
            }
        });
        self.release_all();
        self.drain();
        self.note_lost();
        if let Some(injector) = &mut self.injector {
            injector.command_ended();
        }
        let Tracer { log, mut messages, main, main_ended, letting_go, .. } = self;
        let blinds = log.blinds().to_vec();
        let finished = log.finish().map(|_| ());
        let mut followed = followed.and(finished);
        if letting_go && !main_ended {
            let told = letting_go::tell_end(main, &late, &mut messages, blinds);
            followed = followed.and(told);
        }
        let failure = followed.err().map(|error| error.to_string());
        messages.send(&TracerMessage::Finished { failure });
    }

    /// Follows until the last has ended, or the start is over: why that is.
    fn follow(&mut self) -> io::Result<Option<LetGo>> {
        let mut served = 0;
        loop {
            match self.wait()? {
                Waited::Change(change) => self.take_in(change),
                Waited::Nothing => self.take_all_faults(),
                Waited::Nobody => return Ok(None),
            }
            if let Some(over) = self.start_is_over() {
                return Ok(Some(over));
            }
            served += 1;
            if served % FAIR == 0 && self.table.threads() > 1 {
                self.serve_waiting();
            }
        }
    }

    /// Waits for a change of a child; threads whose delay is over meanwhile go on.
    fn wait(&mut self) -> io::Result<Waited> {
        loop {
            self.release_expired();
            let idle = self.injector.as_mut().and_then(|injector| injector.idle(clock::now()));
            let Some(idle) = idle else { return wait(-1, 0) };
            match wait(-1, libc::WNOHANG)? {
                Waited::Nothing => {}
                other => return Ok(other),
            }
            if idle > Nanos(0) {
                clock::wait_for_child(idle);
            }
        }
    }

    fn release_expired(&mut self) {
        while let Some((thread, event)) =
            self.injector.as_mut().and_then(|injector| injector.expired(clock::now()))
        {
            self.end_delay(thread, event);
        }
        let Some(injector) = &mut self.injector else { return };
        let doomed = injector.doomed(clock::now());
        doomed.into_iter().for_each(|(thread, event)| self.end_delay(thread, event));
    }

    /// Nobody stands still for good, however the following ended.
    fn release_all(&mut self) {
        let all = self.injector.as_mut().map(DelayInjector::all).unwrap_or_default();
        all.into_iter().for_each(|(thread, event)| self.end_delay(thread, event));
        self.set_free_all();
        for change in std::mem::take(&mut self.early).into_values().flatten() {
            if let StopChange::Stopped(thread, _) = change {
                self.go_on(thread, 0);
            }
        }
    }

    /// A thread is delayed no longer. Its call ends now.
    fn end_delay(&mut self, thread: StoppedThread, event: Event) {
        self.go_on(thread, 0);
        self.record_delayed(event);
    }

    fn record_delayed(&mut self, event: Event) {
        let took = Nanos(self.log.now().0.saturating_sub(event.start.0));
        self.log.call(Event { took, ..event }, None);
    }

    /// Takes in what has happened to a thread, and decides how it goes on.
    fn take_in(&mut self, change: StopChange) {
        self.drain();
        self.broke_off(&change);
        let tid = change.tid();
        if self.letting_go
            && let StopChange::Stopped(thread, PtraceStop::Exec) = &change
            && let Ok(former) = thread.event_message()
        {
            // It may have the id of one that was let go of.
            self.table.executed(tid, former as i32);
        }
        self.take_faults(tid);
        if !self.table.hears_of(tid) {
            self.early.entry(tid).or_default().push_back(change);
            self.adopt_orphans();
            return;
        }
        let Some(change) = self.keep_held(change) else { return };
        match change {
            StopChange::Ended(end) => self.ended(end),
            StopChange::Stopped(thread, stop) => {
                let next = self.at_stop(&thread, stop);
                let went_on = self.carry_on(thread, stop, next);
                if went_on
                    && matches!(stop, PtraceStop::Call | PtraceStop::FilteredCall)
                    && let Some(injector) = &mut self.injector
                {
                    injector.went_on(tid, clock::now());
                }
            }
        }
    }

    fn at_stop(&mut self, thread: &StoppedThread, stop: PtraceStop) -> Result<Next, TraceError> {
        self.at_first_stop(thread, stop)?;
        match stop {
            PtraceStop::Call => {
                let entry = !self.reader.filtered && self.turn(thread.tid());
                let of_interest = entry || self.table.is_in_call(thread.tid());
                if of_interest { self.at_call(thread, entry) } else { Ok(Next::GoOn(0)) }
            }
            PtraceStop::FilteredCall => self.at_call(thread, true),
            PtraceStop::Signal(signal) => self.at_signal(thread, signal),
            PtraceStop::Birth => self.at_birth(thread),
            PtraceStop::Exec => self.at_exec(thread),
            PtraceStop::Exit => self.at_exit(thread),
            PtraceStop::Group(signal) => {
                if thread.tid() == self.main {
                    self.messages.stop_front(signal, self.main);
                }
                Ok(Next::Listen)
            }
            PtraceStop::Begin => {
                if thread.tid() == self.main {
                    self.messages.continue_front();
                }
                self.put_back_of_child(thread)?;
                self.unwatch_exit_of_child(thread)?;
                Ok(Next::GoOn(0))
            }
            PtraceStop::Other => Ok(Next::GoOn(0)),
        }
    }

    fn at_signal(&mut self, thread: &StoppedThread, signal: i32) -> Result<Next, TraceError> {
        let tid = thread.tid();
        let brakes = signal == libc::SIGSTOP && self.tap.is_some();
        if brakes && matches!(thread.signal_code_and_sender(), Ok((libc::SI_KERNEL, _))) {
            // The tap's brake: its ring was filling, and has been drained by now.
            return Ok(Next::GoOn(0));
        }
        if signal == libc::SIGTRAP && self.is_breakpoint(thread)?
            || self.is_end_of_watching(thread, signal)
        {
            return Ok(Next::GoOn(0));
        }
        let at = self.log.now();
        let Some(task) = self.table.task_mut(tid) else { return Ok(Next::GoOn(signal)) };
        let process = task.process;
        let deliver = match signals::deliver(thread, &mut task.interrupted, signal, at) {
            Err(TraceError::Gone) => return Err(TraceError::Gone),
            Err(error) => {
                self.report(tid, &error);
                true
            }
            Ok(deliver) => deliver,
        };
        let from = thread.signal_code_and_sender().map_or(0, |(_, from)| from);
        let (thread, number) = (tid.unsigned_abs(), signal.unsigned_abs() as u8);
        self.log.record(&Record::Signal { process, thread, signal: number, at });
        if tid == self.main {
            self.messages.send(&TracerMessage::Delivered { signal, from });
        }
        Ok(Next::GoOn(if deliver { signal } else { 0 }))
    }

    /// Carries a decision out, and goes on where there is none; whether the thread goes on.
    fn carry_on(
        &mut self,
        thread: StoppedThread,
        stop: PtraceStop,
        next: Result<Next, TraceError>,
    ) -> bool {
        if self.letting_go {
            self.release(thread, stop, next);
            return false;
        }
        match next {
            Ok(Next::GoOn(signal)) => return self.go_on(thread, signal),
            Ok(Next::Listen) => {
                let tid = thread.tid();
                if let Err(error) = thread.listen() {
                    self.report(tid, &error);
                }
            }
            Ok(Next::Wait) => self.world.wait(thread),
            Ok(Next::Delay(delay)) => match &mut self.injector {
                Some(injector) => injector.inject(thread, delay),
                None => return self.go_on(thread, 0),
            },
            Err(TraceError::Gone) => thread.killed(),
            Err(error) => {
                self.report(thread.tid(), &error);
                self.go_on(thread, 0);
            }
        }
        false
    }

    /// Lets a stopped thread go on, to the exit of the call that it is in, if it is in one;
    /// whether it does.
    fn go_on(&mut self, thread: StoppedThread, signal: i32) -> bool {
        let tid = thread.tid();
        // A thread in a call of its own may be asleep; all others can run.
        if self.table.others_are_quiet(tid) {
            self.binder.alone(tid);
        } else {
            let now = self.log.now();
            self.binder.among_others(now);
            self.look_who_sleeps(tid, now);
        }
        let task = self.table.task(tid);
        let in_call = task.is_some_and(|task| task.pending.is_some());
        let how = match self.is_leaving() && task.is_none_or(|task| task.put_back.is_none()) {
            true => Resume::ToEvent,
            false => self.reader.resume(in_call),
        };
        let gone_on = thread.resume(how, signal);
        if let Err(error) = &gone_on {
            self.report(tid, error);
        }
        gone_on.is_ok()
    }

    /// Threads also sleep in calls that do not stop, as a pool's do in futex. Until it stops, a
    /// thread that the kernel shows asleep is taken for one that cannot run; should it run all
    /// the same, it has all its CPUs.
    fn look_who_sleeps(&mut self, awake: i32, now: Nanos) {
        if now.0.saturating_sub(self.looked.0) < LOOK.0 || self.table.threads() > CROWD {
            return;
        }
        self.looked = now;
        let is_asleep = |tid| proc::ProcessStat::of(tid).is_some_and(|stat| stat.is_asleep());
        self.table.look_who_sleeps(awake, is_asleep);
    }

    /// What the kernel refuses, nobody expects: the recording says so. That a thread is gone is
    /// normal, and its end comes next.
    fn report(&mut self, tid: i32, error: &TraceError) {
        if let TraceError::Failed { .. } = error {
            let process = self.table.task(tid).map_or(ProcessId(0), |task| task.process);
            self.log.blind(Blind::RequestFailed { process, error: error.to_string() });
        }
    }
}
