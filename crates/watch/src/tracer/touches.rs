//! Page faults: whose are watched, and when they are taken in.

use recording::Nanos;

use super::Tracer;
use crate::ptrace::{StoppedThread, TraceError};
use crate::task::Task;

impl Tracer {
    /// Watches the page faults of a thread's process where it is about to map much of a file, or has
    /// mapped many; whether it is about to.
    pub(super) fn begins_to_map(
        &mut self,
        thread: &StoppedThread,
        much: bool,
    ) -> Result<bool, TraceError> {
        let tid = thread.tid();
        let many = self.table.task(tid).is_some_and(Task::maps_many);
        if self.page_faults.is_none() || !(much || many) {
            return Ok(false);
        }
        let watched = self.table.task(tid).is_some_and(|task| task.faults.is_some());
        self.watch_faults(tid);
        if many && let Some(task) = self.table.task_mut(tid) {
            task.take_unseen(&mut self.log, true);
        }
        if !watched {
            // Its page table is there until then.
            match self.table.group_of(tid) {
                group if group == tid => self.watch_exit(thread, group)?,
                _ => thread.set_options(self.reader.options | libc::PTRACE_O_TRACEEXIT)?,
            }
        }
        Ok(much)
    }

    /// Takes in all that a process has touched at the end of its first thread, or of another where
    /// that one's is not watched.
    pub(super) fn take_faults_at_exit(&mut self, tid: i32) {
        let group = self.table.group_of(tid);
        let of_first = self.table.process(group).is_some_and(|process| process.watches_exit);
        if tid == group || !of_first {
            self.take_last_faults(tid);
        }
    }

    /// Takes in all that a thread's process has touched: its page table is about to go.
    pub(super) fn take_last_faults(&mut self, tid: i32) {
        let group = self.table.group_of(tid);
        for task in self.table.tasks_mut().filter(|task| task.group == group) {
            task.take_faults(&mut self.log, ALL);
        }
        if let Some(task) = self.table.task_mut(tid) {
            task.take_unseen(&mut self.log, false);
        }
    }

    /// The same of all processes.
    pub(super) fn take_all_unseen(&mut self) {
        for task in self.table.tasks_mut().filter(|task| task.tid == task.group) {
            task.take_unseen(&mut self.log, false);
        }
    }

    /// Watches the page faults of a thread's process: of all its threads, and those to come.
    pub(super) fn watch_faults(&mut self, tid: i32) {
        let group = self.table.group_of(tid);
        let (log, Some(alarm)) = (&mut self.log, &mut self.page_faults) else { return };
        for task in self.table.tasks_mut().filter(|task| task.group == group) {
            task.watch_faults(log, alarm);
        }
    }

    /// A new thread of a process that is watched is watched, too, and a process that it forks: until
    /// it is another program it has the same files mapped.
    pub(super) fn watch_faults_of_thread(&mut self, tid: i32) {
        let Some((task, alarm)) = self.table.task_mut(tid).zip(self.page_faults.as_mut()) else {
            return;
        };
        let is_watched = task.space.borrow().files.is_some();
        if is_watched {
            task.watch_faults(&mut self.log, alarm);
        }
    }

    /// Takes in what a thread that has stopped has touched.
    pub(super) fn take_faults(&mut self, tid: i32) {
        if let Some(task) = self.table.task_mut(tid) {
            task.take_faults(&mut self.log, ALL);
        }
    }

    /// Takes in what all threads have touched: a ring was filling.
    pub(super) fn take_all_faults(&mut self) {
        self.drain();
        for task in self.table.tasks_mut() {
            task.take_faults(&mut self.log, ALL);
        }
    }
}

/// Later than any fault.
const ALL: Nanos = Nanos(u64::MAX);
