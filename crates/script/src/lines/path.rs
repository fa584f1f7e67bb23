//! The critical path of a command: at each moment, the one process that its end waited for.
//!
//! It is followed from the command's end backwards. A process is on it by itself until the end of the
//! last of its children before; then that child is, until it was born: what ran beside it was not waited
//! for. So the parts of all processes add up to the time of the command, and a process that had not been
//! there would have saved its part. Of a child in the background that nobody waits for this says too much,
//! and too little of those beside it: what is promised of a cure is kept.

use recording::{Nanos, Process, Recording};

use super::phases::{PhaseMoments, Phases, since};

/// A program that does nothing takes less for that, the recorder's stops included: it ends, its memory
/// is given back, and it waits for a processor.
const NOTHING: Nanos = Nanos(2_000_000);

/// For how long each process is on the critical path, its parent's call of fork included; nothing where
/// the command runs on.
pub(super) fn critical(
    recording: &Recording,
    moments: &PhaseMoments,
    children: &[Vec<&Process>],
) -> Vec<Nanos> {
    let mut critical = vec![Nanos(0); recording.processes.len()];
    let command = recording.processes.first();
    let mut parts: Vec<_> = command
        .and_then(|command| Some((command.id.0 as usize, command.started, command.end?.at)))
        .into_iter()
        .collect();
    while let Some((process, from, to)) = parts.pop() {
        let mut at = to;
        let mut ended = ended(&children[process], from, to);
        while let Some((end, child)) = ended.pop() {
            if end > at {
                continue;
            }
            critical[process] += since(end, at);
            at = child.started.max(from);
            parts.push((child.id.0 as usize, at, end));
            let before = ended.iter().rev().map(|(end, _)| *end).find(|end| *end <= at);
            let called = moments.fork(child).unwrap_or(at).max(before.unwrap_or(from));
            critical[child.id.0 as usize] += since(called, at);
            at = at.min(called);
        }
        critical[process] += since(from, at);
    }
    critical
}

/// The children that ended within a time, the last one last.
fn ended<'a>(children: &[&'a Process], from: Nanos, to: Nanos) -> Vec<(Nanos, &'a Process)> {
    let ends = children.iter().filter_map(|child| Some((child.end?.at, *child)));
    let mut ends: Vec<_> = ends.filter(|(end, _)| *end > from && *end <= to).collect();
    ends.sort_by_key(|(end, child)| (*end, child.started));
    ends
}

/// What a process on the critical path would save there at least, if what it does were done without a
/// process: not what it waits for, nor what it works.
pub(super) fn saved(critical: Nanos, phases: &Phases) -> Nanos {
    let stays = phases.work.0.saturating_sub(NOTHING.0);
    Nanos(critical.0.saturating_sub(stays))
}
