//! The processes of a start, and when each did what, in few enough bytes for a page.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use recording::query::process_name;
use recording::{Descent, Event, Nanos, ProcessId, Recording, shown};
use serde::Serialize;

use crate::call_use::CallUse;

/// Processes that have a row of their own.
const MOST_ROWS: usize = 400;
/// Cells in all: of a row, a moment and a cause.
const MOST_CELLS: usize = 24_000;
/// Moments at first; with too many cells there are half as many, and again.
const MOMENTS: u64 = 1 << 15;
/// Letters of a command that are shown.
const LETTERS: usize = 160;

/// The timeline as the page gets it.
#[derive(Debug, Serialize)]
pub(crate) struct Timeline {
    /// Nanoseconds of the whole.
    duration_ns: u64,
    /// Nanoseconds of a moment.
    moment_ns: u64,
    rows: Vec<TimelineRow>,
    /// Processes without a row of their own: they share the last.
    others: usize,
}

#[derive(Debug, Default, Serialize)]
struct TimelineRow {
    name: String,
    command: String,
    pid: u32,
    depth: u32,
    start_ns: u64,
    end_ns: u64,
    ops: u64,
    failed: u64,
    /// Four numbers a cell: moments since the cell before, cause, metadata operations, failed
    /// lookups.
    cells: Vec<u64>,
}

/// Metadata operations by process, moment and cause.
pub(crate) struct TimelineCounts {
    duration: u64,
    moment: u64,
    /// The row of each process.
    row_of: Vec<u32>,
    own_rows: Vec<ProcessId>,
    others: usize,
    cells: BTreeMap<(u32, u64, usize), (u64, u64)>,
}

impl TimelineCounts {
    pub(crate) fn new(recording: &Recording) -> TimelineCounts {
        let duration = duration(recording).max(1);
        let own_rows = own_rows(recording);
        let shared = own_rows.len() as u32;
        let mut row_of = vec![shared; recording.processes.len()];
        for (row, process) in own_rows.iter().enumerate() {
            row_of[process.0 as usize] = row as u32;
        }
        TimelineCounts {
            duration,
            moment: duration.div_ceil(MOMENTS).max(1),
            others: recording.processes.len() - own_rows.len(),
            row_of,
            own_rows,
            cells: BTreeMap::new(),
        }
    }

    pub(crate) fn count(&mut self, event: &Event, cause: usize, uses: CallUse) {
        let Some(row) = self.row_of.get(event.process.0 as usize) else { return };
        let key = (*row, event.start.0 / self.moment, cause);
        let cell = self.cells.entry(key).or_default();
        *cell = (cell.0 + uses.ops, cell.1 + uses.failed);
        if self.cells.len() > MOST_CELLS && self.moment < self.duration {
            self.coarsen();
        }
    }

    /// Makes each moment twice as long.
    fn coarsen(&mut self) {
        self.moment *= 2;
        for ((row, moment, cause), (ops, failed)) in std::mem::take(&mut self.cells) {
            let cell = self.cells.entry((row, moment / 2, cause)).or_default();
            *cell = (cell.0 + ops, cell.1 + failed);
        }
    }

    pub(crate) fn timeline(self, recording: &Recording) -> Timeline {
        let depths = depths(recording);
        let row = |id: &ProcessId| {
            let process = recording.process(*id);
            let (start, end) =
                (process.started, process.end.map_or(Nanos(self.duration), |end| end.at));
            let exec = recording.program(*id, end);
            let argv = exec.map_or(String::new(), |exec| exec.argv.join(" "));
            TimelineRow {
                name: process_name(recording, process),
                command: shown(argv.chars().take(LETTERS).collect::<String>().as_bytes()),
                pid: process.pid,
                depth: depths[id.0 as usize],
                start_ns: start.0.min(self.duration),
                end_ns: end.0.min(self.duration),
                ..TimelineRow::default()
            }
        };
        let mut rows: Vec<_> = self.own_rows.iter().map(row).collect();
        if self.others > 0 {
            let name = format!("{} other processes", self.others);
            rows.push(TimelineRow { name, end_ns: self.duration, ..TimelineRow::default() });
        }
        let mut last = (u32::MAX, 0);
        for ((row, moment, cause), (ops, failed)) in self.cells {
            if last.0 != row {
                last = (row, 0);
            }
            let Some(line) = rows.get_mut(row as usize) else { continue };
            line.cells.extend([moment - last.1, cause as u64, ops, failed]);
            line.ops += ops;
            line.failed += failed;
            last.1 = moment;
        }
        let (duration_ns, moment_ns, others) = (self.duration, self.moment, self.others);
        Timeline { duration_ns, moment_ns, rows, others }
    }
}

/// Until when anything is known.
fn duration(recording: &Recording) -> u64 {
    let ends = recording.processes.iter().filter_map(|process| process.end).map(|end| end.at.0);
    let calls = recording.events.iter().map(|event| (event.start + event.took).0);
    let last = ends.chain(calls).max().unwrap_or_default();
    recording.summary.as_ref().map_or(last, |summary| summary.ended.0.max(last))
}

/// Those with most metadata operations, so many at most, each after the one that started it.
fn own_rows(recording: &Recording) -> Vec<ProcessId> {
    let mut ops = vec![0u64; recording.processes.len()];
    for event in recording.events.iter().filter(|event| event.is_metadata()) {
        if let Some(ops) = ops.get_mut(event.process.0 as usize) {
            *ops += 1;
        }
    }
    let mut most: Vec<_> = recording.processes.iter().map(|process| process.id).collect();
    most.sort_by_key(|id| (Reverse(ops[id.0 as usize]), *id));
    most.truncate(MOST_ROWS);
    let descent = Descent::of(recording);
    most.sort_by_key(|id| descent.places(*id).start);
    most
}

/// How many are above each process.
fn depths(recording: &Recording) -> Vec<u32> {
    let mut depths: Vec<u32> = Vec::with_capacity(recording.processes.len());
    for process in &recording.processes {
        let above = process.parent.and_then(|parent| depths.get(parent.0 as usize));
        depths.push(above.map_or(0, |above| above + 1));
    }
    depths
}
