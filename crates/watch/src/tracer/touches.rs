//! Page faults: whose are watched, and when they are taken in.

use recording::Nanos;

use super::Tracer;

impl Tracer {
    /// Watches the page faults of a thread's process: of all its threads, and those to come.
    pub(super) fn watch_faults(&mut self, tid: i32) {
        let group = self.table.group_of(tid);
        let log = &mut self.log;
        for task in self.table.tasks_mut().filter(|task| task.group == group) {
            task.watch_faults(log);
        }
    }

    /// A new thread of a process that is watched is watched, too, and a process that it forks: until
    /// it is another program it has the same files mapped.
    pub(super) fn watch_faults_of_thread(&mut self, tid: i32) {
        let Some(task) = self.table.task_mut(tid) else { return };
        let is_watched = self.page_faults && task.space.borrow().files.is_some();
        if is_watched {
            task.watch_faults(&mut self.log);
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
