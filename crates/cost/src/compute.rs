//! What the processes computed between their calls, without the recorder.
//!
//! A call's time has the recorder's stops in it, the time between two calls of a thread has not:
//! what is filtered out is not stopped at. But a thread that sleeps in a call that is not
//! recorded (futex, nanosleep) computes nothing meanwhile; so a process never computes longer
//! than the CPU time that it used.

use recording::{Event, Nanos, Process, ProcessId, Recording};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the compute time of a rank comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComputeSource {
    /// From the recording: the time between calls, at most the CPU time of each process.
    Recorded,
    /// The user gave it.
    Given,
}

/// The compute time before each of a recording's events, in the order of their starts.
pub(crate) struct ComputeGaps<'a> {
    recording: &'a Recording,
    last_ends: LastEnds,
    /// The part of each process's gaps that it computed, by its number.
    shares: Vec<f64>,
}

/// When the last call of each thread ended.
type LastEnds = FxHashMap<(ProcessId, u32), Nanos>;

impl<'a> ComputeGaps<'a> {
    /// Before the first of these events.
    pub(crate) fn of(
        recording: &'a Recording,
        events: impl Iterator<Item = &'a Event>,
    ) -> ComputeGaps<'a> {
        let mut by_process: FxHashMap<ProcessId, f64> = FxHashMap::default();
        let mut last_ends = LastEnds::default();
        for event in events {
            *by_process.entry(event.process).or_default() += gap(recording, &mut last_ends, event);
        }
        let share = |process: &Process| {
            let between = by_process.get(&process.id).copied().unwrap_or(0.0);
            let cpu = process.end.map_or(f64::MAX, |end| {
                (end.usage.user.0 as f64 + end.usage.system.0 as f64) * 1e3
            });
            if between > cpu { cpu / between } else { 1.0 }
        };
        let shares = recording.processes.iter().map(share).collect();
        ComputeGaps { recording, last_ends: LastEnds::default(), shares }
    }

    /// The compute time before the next event, in nanoseconds.
    pub(crate) fn before(&mut self, event: &Event) -> f64 {
        let share = self.shares.get(event.process.0 as usize).copied().unwrap_or(1.0);
        gap(self.recording, &mut self.last_ends, event) * share
    }
}

/// Nanoseconds from the end of a thread's last call.
fn gap(recording: &Recording, last_ends: &mut LastEnds, event: &Event) -> f64 {
    let process = recording.process(event.process);
    // A thread is first seen at its first call: when it began is not known.
    let begun = if event.thread == process.pid { process.started } else { event.start };
    let end = event.start + event.took;
    let since = last_ends.insert((event.process, event.thread), end).unwrap_or(begun);
    event.start.0.saturating_sub(since.0) as f64
}
