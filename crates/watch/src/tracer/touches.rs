//! Page faults: whose are watched, and when they are taken in; calls that a tap reports.

use recording::Nanos;

use super::Tracer;
use crate::descriptor_tap::{DescriptorTap, TapSink};

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
        let Tracer { table, log, tap, reader, .. } = self;
        take_all_faults(tap.as_mut(), TapSink { table, log, shapes: &reader.shapes });
    }

    /// Takes in the calls that the tap has reported.
    pub(super) fn drain(&mut self) {
        if let Some(tap) = &mut self.tap {
            let (table, log, shapes) = (&mut self.table, &mut self.log, &self.reader.shapes);
            tap.drain(TapSink { table, log, shapes });
        }
    }

    /// Notes the calls that the tap could not report.
    pub(super) fn note_lost(&mut self) {
        if let Some(tap) = &self.tap {
            tap.note_lost(&mut self.log);
        }
    }
}

/// The same of its parts. What the tap has to tell comes first: what is mapped where.
pub(super) fn take_all_faults(tap: Option<&mut DescriptorTap>, sink: TapSink) {
    if let Some(tap) = tap {
        tap.drain(TapSink { table: sink.table, log: sink.log, shapes: sink.shapes });
    }
    for task in sink.table.tasks_mut() {
        task.take_faults(sink.log, ALL);
    }
}

/// Later than any fault.
const ALL: Nanos = Nanos(u64::MAX);
