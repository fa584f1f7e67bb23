//! Whoever looks into processes, and what it tells: origins of processes, in the recording.

use recording::{ByteUnits, Frame, Origin, ProcessId, Record};

use crate::log::RecordingLog;
use crate::memory;
use crate::observer::{Executed, Observer, ScriptFrame, Stopped, TOLD};
use crate::table::ProcessTable;

/// The observer, if there is one.
pub(crate) struct Observers(pub Option<Box<dyn Observer>>);

impl Observers {
    /// A process has become a program; whether it is to be stopped before its end.
    pub fn executed(&mut self, process: &Stopped, program: &Executed<'_>) -> bool {
        let Some(observer) = &mut self.0 else { return false };
        observer.executed(process, program);
        observer.waits_for(process.pid)
    }

    /// Where a child was just started, by a thread of a process; none if nobody looks.
    pub fn forked(
        &mut self,
        log: &mut RecordingLog,
        (tid, pid): (i32, i32),
        child: i32,
    ) -> Option<Origin> {
        let frames = self.0.as_mut()?.forked(&Stopped { pid, tid }, child);
        Some(Origin { frames: recorded(log, frames), rss: resident(tid) })
    }

    /// A thread stands in execve(2): records where its process was started, if that is told only
    /// now.
    pub fn executes(&mut self, table: &ProcessTable, log: &mut RecordingLog, tid: i32) {
        let Some(observer) = &mut self.0 else { return };
        let pid = table.group_of(tid);
        let frames = observer.executes(&Stopped { pid, tid });
        if let Some(process) = table.process(pid) {
            record(log, process.id, frames, process.parent_rss);
        }
    }

    /// A process ends: records where it was started, if that is known only now.
    pub fn ended(
        &mut self,
        log: &mut RecordingLog,
        pid: i32,
        process: ProcessId,
        parent_rss: ByteUnits,
    ) {
        if let Some(observer) = &mut self.0 {
            let frames = observer.ended(pid);
            record(log, process, frames, parent_rss);
        }
    }

    /// A call with a path at this address, which may tell something.
    pub fn told(&mut self, table: &ProcessTable, tid: i32, address: u64) {
        let Some(observer) = &mut self.0 else { return };
        let mut path = Vec::new();
        if memory::read_string(tid, address, &mut path).is_ok()
            && let Some(text) = path.strip_prefix(TOLD.as_bytes())
        {
            observer.told(&Stopped { pid: table.group_of(tid), tid }, text);
        }
    }
}

/// Records where a process was started, if anything is known of that.
fn record(log: &mut RecordingLog, process: ProcessId, frames: Vec<ScriptFrame>, rss: ByteUnits) {
    if !frames.is_empty() {
        let origin = Origin { frames: recorded(log, frames), rss };
        log.record(&Record::Origin { process, origin });
    }
}

fn recorded(log: &mut RecordingLog, frames: Vec<ScriptFrame>) -> Vec<Frame> {
    let frame = |place: ScriptFrame| Frame {
        file: place.file.map(|file| log.path(&file)),
        line: place.line,
        function: place.function,
    };
    frames.into_iter().map(frame).collect()
}

/// A process's resident set (proc_pid_statm(5)).
fn resident(tid: i32) -> ByteUnits {
    let text = std::fs::read_to_string(format!("/proc/{tid}/statm")).unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    ByteUnits(pages * rustix::param::page_size() as u64)
}
