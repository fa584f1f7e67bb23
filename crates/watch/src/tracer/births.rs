//! Births, execs and ends: which threads and processes there are, and what they become.

use std::cell::RefCell;
use std::rc::Rc;

use launch::Ended;
use proc::ProcessStatus;
use recording::{Blind, ByteUnits, Exec, ExitStatus, Record, StartCall};
use rustix::process::geteuid;

use super::calls::UNTRACED;
use super::{Next, Tracer};
use crate::files::proc_link;
use crate::message::TracerMessage;
use crate::observer::{Executed, Stopped};
use crate::program::{self, ExecutedProgram};
use crate::ptrace::{StoppedThread, ThreadEnd, TraceError};
use crate::space::AddressSpace;
use crate::table::kind_of_birth;
use crate::task::Task;
use crate::{arch, faults};

impl Tracer {
    /// Takes in the command itself, which stands at its exec.
    pub(super) fn adopt_main(&mut self, task: Task) {
        self.add(task, None, Some(StartCall::Command));
    }

    /// A thread stands in the call that has made another, or a process.
    pub(super) fn at_birth(&mut self, thread: &StoppedThread) -> Result<Next, TraceError> {
        let (tid, child) = (thread.tid(), thread.event_message()? as i32);
        let Some(task) = self.table.task(tid) else { return Ok(Next::GoOn(0)) };
        let flags = match task.pending {
            Some(_) => task.clone_flags(),
            None => self.flags_of_unseen(thread)?,
        };
        let parent = task.group;
        let (how, mut task) = (kind_of_birth(flags), task.child(child, flags));
        let watches_exit = self.table.process(parent).is_some_and(|parent| parent.watches_exit);
        task.inherits_exit_watch = watches_exit && how.is_some();
        self.binder.started(tid, child);
        let origin = match how {
            Some(_) => self.observers.forked(&mut self.log, (tid, parent), child),
            None => None,
        };
        self.add(task, Some(parent), how);
        if let (Some(origin), Some(process)) = (origin, self.table.process_mut(child)) {
            process.parent_rss = origin.rss;
            self.log.record(&Record::Origin { process: process.id, origin });
        }
        if self.tap.is_some() && how.is_some() && tid == parent && !watches_exit {
            // It will wait for its child, and not stop for that ([`Tracer::reaped`]).
            self.watch_exit(thread, parent)?;
        }
        // What it returns is known; a vfork does once its child is another program.
        let vfork = flags & libc::CLONE_VFORK as u64 != 0;
        if !vfork && flags & UNTRACED == 0 {
            self.leave_early(thread, i64::from(child));
        }
        Ok(Next::GoOn(0))
    }

    /// Takes in a new thread or process, and what it has already done.
    pub(super) fn add(&mut self, task: Task, parent: Option<i32>, how: Option<StartCall>) {
        let (tid, at) = (task.tid, self.log.now());
        match how {
            None => {
                let (process, thread) = (task.process, tid.unsigned_abs());
                self.log.record(&Record::Thread { process, thread, at });
                self.table.add_thread(task);
                self.watch_faults_of_thread(tid);
            }
            Some(how) => {
                let parent_id =
                    parent.and_then(|parent| self.table.process(parent)).map(|it| it.id);
                let id = self.table.add_process(task, parent);
                let pid = tid.unsigned_abs();
                self.log.record(&Record::Start { process: id, pid, parent: parent_id, how, at });
                if let Some(tap) = &mut self.tap {
                    tap.follow(tid);
                }
                if let Some(start) = &mut self.start {
                    start.born(at);
                }
                if how == StartCall::Fork {
                    self.watch_faults_of_thread(tid);
                }
            }
        }
        for change in self.early.remove(&tid).into_iter().flatten() {
            self.take_in(change);
        }
    }

    /// A process has become another program.
    pub(super) fn at_exec(&mut self, thread: &StoppedThread) -> Result<Next, TraceError> {
        let (tid, former) = (thread.tid(), thread.event_message()? as i32);
        for vanished in self.table.executed(tid, former) {
            self.vanished(vanished);
        }
        let noted = self.note_exec(thread);
        self.leave_early(thread, 0);
        noted?;
        Ok(Next::GoOn(0))
    }

    /// A thread is gone, and its number may soon be another's.
    fn vanished(&mut self, tid: i32) {
        self.binder.ended(tid);
        self.set_free_all_of(tid);
        if let Some(event) = self.injector.as_mut().and_then(|it| it.vanished(tid)) {
            self.record_delayed(event);
        }
    }

    /// Records what a process has become.
    pub(super) fn note_exec(&mut self, thread: &StoppedThread) -> Result<(), TraceError> {
        let tid = thread.tid();
        let (arch, stack) = thread.new_program(self.reader.source)?;
        let wide = arch::word(arch) == 8;
        let program = program::read(tid, stack, arch::word(arch)).unwrap_or_default();
        let image = proc_link(tid, "exe").unwrap_or_default();
        let at = self.log.now();
        let image_id = self.log.path(&image);
        self.log.mapped(&image);
        let loader = program.loader.as_deref().map(|loader| self.log.path(loader));
        let proc_cwd = proc_link(tid, "cwd");
        let cwd = proc_cwd.clone().unwrap_or_else(|| b"/".to_vec());
        let large = program.code.iter().map(|(_, length)| length).sum::<u64>() >= faults::LARGE;
        let Some(task) = self.table.task_mut(tid) else { return Ok(()) };
        let files = match self.log.unwatched {
            // Whether a descriptor is closed at an exec can have been changed unseen.
            Some(_) => task.files.borrow().clone(),
            None => task.files.borrow().after_exec(),
        };
        task.files = Rc::new(RefCell::new(files));
        task.directories.borrow_mut().cwd = proc_cwd;
        task.space = Rc::new(RefCell::new(space_of(&program, image_id, loader)));
        let pending = task.pending.as_ref().and_then(|pending| pending.path.as_ref());
        let path = pending.map_or(image_id, |path| path.id);
        let pending_path = pending.map(|path| Rc::clone(&path.bytes));
        match (large, &mut self.page_faults) {
            (true, Some(alarm)) => task.watch_faults(&mut self.log, alarm),
            _ => task.faults = None,
        }
        let (process, pid, is_watched) = (task.process, task.group, task.faults.is_some());
        let executed =
            Executed { image: &image, bias: program.bias, argv: &program.argv, cwd: &cwd, wide };
        let waited_for = self.observers.executed(&Stopped { pid, tid }, &executed);
        if let Some(start) = &mut self.start {
            let path = pending_path.as_deref().unwrap_or(&image);
            start.executed(path, &image, at);
        }
        self.await_mpi_of_program(thread, &image, program.bias)?;
        let cwd = self.log.path(&cwd);
        let ExecutedProgram { argv, exact_argv, env, .. } = program;
        let exec = Exec { at, path, image: image_id, argv, exact_argv, cwd, loader, env };
        self.log.executed(process, exec);
        if !geteuid().is_root() && launch::lost_rights(pid) {
            let path = String::from_utf8_lossy(&image).into_owned();
            self.log.blind(Blind::Setuid { process, path });
        }
        if waited_for || is_watched { self.watch_exit(thread, pid) } else { Ok(()) }
    }

    /// The stop before a process's end, asked for where its largest resident set is hidden, or by
    /// the observer.
    pub(super) fn at_exit(&mut self, thread: &StoppedThread) -> Result<Next, TraceError> {
        let tid = thread.tid();
        let group = self.table.group_of(tid);
        self.take_faults_at_exit(tid);
        if let Some(process) = self.table.process_mut(group) {
            let peak = ProcessStatus::of(tid).and_then(|status| status.number("VmHWM"));
            process.peak = peak.map(|kib| ByteUnits(kib * 1024));
            let (id, parent_rss) = (process.id, process.parent_rss);
            if tid == self.main
                && let Some(unwatched) = &mut self.log.unwatched
            {
                unwatched.files.has_read(tid);
            }
            if tid == group {
                self.observers.ended(&mut self.log, group, id, parent_rss);
            }
        }
        Ok(Next::GoOn(0))
    }

    /// A thread has ended, and with the first one its process.
    pub(super) fn ended(&mut self, end: ThreadEnd) {
        let ThreadEnd { tid, status, usage } = end;
        self.vanished(tid);
        let Some(process) = self.table.ended(tid, usage) else { return };
        if let Some(tap) = &self.tap {
            tap.forget(tid);
        }
        self.observers.ended(&mut self.log, tid, process.id, process.parent_rss);
        let ended = Ended::from_wait(status);
        self.log.record(&Record::End {
            process: process.id,
            at: self.log.now(),
            status: match ended {
                Ended::Exited(code) => ExitStatus::Exited(code),
                Ended::Signaled(signal) => ExitStatus::Signaled(signal.unsigned_abs() as u8),
            },
            usage: process.own_usage(&usage),
        });
        self.adopt_orphans();
        if let Some(start) = &mut self.start {
            start.mpi.gone(tid);
        }
        if tid == self.main {
            self.main_ended(ended);
        }
    }

    /// The command has ended; what it left running is followed further.
    fn main_ended(&mut self, ended: Ended) {
        self.main_ended = true;
        self.note_lost();
        self.log.settle();
        if let Some(injector) = &mut self.injector {
            injector.command_ended();
        }
        let still_running = self.table.running();
        let blinds = self.log.blinds().to_vec();
        self.messages.send(&TracerMessage::MainEnded { ended, still_running, blinds });
        self.messages.outlive_front();
    }

    /// A parent that was killed before its fork's event could be read leaves a child that
    /// nobody tells of: once its parent is gone, it is taken in as the first one's.
    pub(super) fn adopt_orphans(&mut self) {
        let table = &self.table;
        let is_orphan = |tid: &i32| {
            let status = ProcessStatus::of(*tid);
            let number = |name| Some(status.as_ref()?.number(name)? as i32);
            !table.has_parent(*tid, number("PPid"), number("Tgid"))
        };
        let orphans: Vec<i32> = self.early.keys().copied().filter(is_orphan).collect();
        for tid in orphans {
            self.add(Task::new(tid), Some(self.main), Some(StartCall::Fork));
        }
    }

    /// A thread has waited for a child of its process.
    pub(super) fn reaped(&mut self, thread: &StoppedThread, child: i32) -> Result<(), TraceError> {
        let (tid, group) = (thread.tid(), self.table.group_of(thread.tid()));
        // From now on the kernel's largest resident set is that of parent and children; the
        // parent's own can be read as long as it lives, at the stop before its end.
        if !self.table.reaped(group, child) || tid != group {
            return Ok(());
        }
        self.watch_exit(thread, group)
    }

    /// Has a process's first thread stop before its end.
    pub(super) fn watch_exit(
        &mut self,
        thread: &StoppedThread,
        group: i32,
    ) -> Result<(), TraceError> {
        if let Some(process) = self.table.process_mut(group) {
            process.watches_exit = true;
        }
        thread.set_options(self.reader.options | libc::PTRACE_O_TRACEEXIT)
    }

    /// A new process stops at what its parent does (ptrace(2)), and so at its end if that is
    /// watched: for nothing.
    pub(super) fn unwatch_exit_of_child(
        &mut self,
        thread: &StoppedThread,
    ) -> Result<(), TraceError> {
        let Some(task) = self.table.task_mut(thread.tid()) else { return Ok(()) };
        match std::mem::take(&mut task.inherits_exit_watch) && task.faults.is_none() {
            true => thread.set_options(self.reader.options),
            false => Ok(()),
        }
    }
}

/// The address space of a program that has not run an instruction yet.
fn space_of(
    program: &ExecutedProgram,
    image: recording::PathId,
    loader: Option<recording::PathId>,
) -> AddressSpace {
    let mut space = AddressSpace::new(!program.loader_code.is_empty(), program.has_musl());
    for (start, length) in &program.code {
        space.map(*start, *length, Some(image), false);
    }
    for (start, length) in &program.loader_code {
        space.map(*start, *length, loader, true);
    }
    space
}
