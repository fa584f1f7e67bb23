//! What the processes computed between their calls, without the recorder.
//!
//! A call's time has the recorder's stops in it, the time between two calls of a thread has not:
//! what is filtered out is not stopped at. But a thread that sleeps in a call that is not
//! recorded (futex, nanosleep) computes nothing meanwhile; so a process never computes longer
//! than the CPU time that it used.

use recording::{Nanos, Process, ProcessId, Recording};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Where the compute time of a rank comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComputeSource {
    /// From the recording: the time between calls, at most the CPU time of each process.
    Recorded,
    /// The user gave it.
    Given,
}

/// The compute time before each of these events (their numbers, in the order of their starts), in
/// nanoseconds.
pub(crate) fn gaps(recording: &Recording, order: &[usize]) -> Vec<f64> {
    let mut last_end: FxHashMap<(ProcessId, u32), Nanos> = FxHashMap::default();
    let mut by_process: FxHashMap<ProcessId, f64> = FxHashMap::default();
    let mut gaps: Vec<f64> = Vec::with_capacity(order.len());
    let events = || order.iter().map(|event| &recording.events[*event]);
    for event in events() {
        let process = recording.process(event.process);
        // A thread is first seen at its first call: when it began is not known.
        let begun = if event.thread == process.pid { process.started } else { event.start };
        let end = event.start + event.took;
        let since = last_end.insert((event.process, event.thread), end).unwrap_or(begun);
        let gap = event.start.0.saturating_sub(since.0) as f64;
        *by_process.entry(event.process).or_default() += gap;
        gaps.push(gap);
    }
    let share = |process: &Process| {
        let between = by_process.get(&process.id).copied().unwrap_or(0.0);
        let cpu = process
            .end
            .map_or(f64::MAX, |end| (end.usage.user.0 as f64 + end.usage.system.0 as f64) * 1e3);
        if between > cpu { cpu / between } else { 1.0 }
    };
    let shares: Vec<f64> = recording.processes.iter().map(share).collect();
    for (gap, event) in gaps.iter_mut().zip(events()) {
        *gap *= shares.get(event.process.0 as usize).copied().unwrap_or(1.0);
    }
    gaps
}
