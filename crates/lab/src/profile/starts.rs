//! The flame graph of process starts alone: what can be shown without perf.

use recording::{Nanos, Process, Recording};

use super::account::bars;
use super::flame::GraphStack;
use super::lineage::Lineage;

/// What the width of a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartsWidth {
    /// One each.
    Count,
    /// The time that it lived while none of its children did: of a script that waits for what it
    /// starts, all widths add up to the time that it took.
    Wall,
    /// The CPU time that it used.
    Cpu,
}

/// A stack for each ancestry.
pub fn starts(recording: &Recording, width: StartsWidth) -> Vec<GraphStack> {
    let lineage = Lineage::of(recording);
    let mut widths = vec![0_u64; lineage.kin.len()];
    let alone = match width {
        StartsWidth::Wall => alone(recording),
        StartsWidth::Count | StartsWidth::Cpu => Vec::new(),
    };
    for process in &recording.processes {
        let width = match width {
            StartsWidth::Count => 1,
            StartsWidth::Wall => alone[process.id.0 as usize].0 / 1000,
            StartsWidth::Cpu => {
                process.end.map_or(0, |end| end.usage.user.0.saturating_add(end.usage.system.0))
            }
        };
        let sum = &mut widths[lineage.of_process(process.id)];
        *sum = sum.saturating_add(width);
    }
    let stack = |(kin, width)| GraphStack { bars: bars(&lineage, kin), width };
    widths.into_iter().enumerate().map(stack).collect()
}

/// For each process the time that it lived while none of its children did.
fn alone(recording: &Recording) -> Vec<Nanos> {
    let known = recording.processes.iter().map(|it| it.end.map_or(it.started, |end| end.at)).max();
    let last =
        recording.summary.as_ref().map(|summary| summary.ended).or(known).unwrap_or_default();
    let end = |process: &Process| process.end.map_or(last, |end| end.at).max(process.started);
    let mut left: Vec<Nanos> = recording
        .processes
        .iter()
        .map(|process| Nanos(end(process).0 - process.started.0))
        .collect();
    // Until when each process's children that came so far have lived: children come in the order
    // of their starts.
    let mut covered: Vec<Nanos> = recording.processes.iter().map(|it| it.started).collect();
    for process in &recording.processes {
        let Some(parent) = process.parent else { continue };
        let parent = &recording.processes[parent.0 as usize];
        let seen = &mut covered[parent.id.0 as usize];
        let (from, to) = (process.started.max(*seen), end(process).min(end(parent)));
        if to > from {
            let left = &mut left[parent.id.0 as usize];
            *left = Nanos(left.0.saturating_sub(to.0 - from.0));
            *seen = to;
        }
    }
    left
}
