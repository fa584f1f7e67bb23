//! A recording's processes as the tree that they are, each with what its time went to.

use recording::{Descent, Micros, Nanos, Process, Recording};
use schemars::JsonSchema;
use serde::Serialize;

use super::account::{base_name, children};
use super::phases::{PhaseMoments, Phases, since};

/// A process that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StartedProcess {
    /// Its id.
    pub pid: u32,
    /// Its parent's; none of the command itself.
    pub parent: Option<u32>,
    /// How many are above it.
    pub depth: u32,
    /// What it executed last; none for a subshell.
    pub program: Option<String>,
    /// The line that started it, `file:line`; none where that is not known.
    pub line: Option<String>,
    /// From the command's start to its birth.
    #[serde(rename = "started_ns")]
    pub started: Nanos,
    /// From its birth to its end.
    #[serde(rename = "lived_ns")]
    pub lived: Nanos,
    /// Its processor time, without its children's.
    #[serde(rename = "cpu_us")]
    pub cpu: Micros,
    /// What its time went to.
    #[serde(flatten)]
    pub phases: Phases,
}

/// All processes, each behind its parent, children in the order of their starts.
pub fn processes(recording: &Recording) -> Vec<StartedProcess> {
    let moments = PhaseMoments::of(recording);
    let children = children(recording);
    let mut depths = vec![0; recording.processes.len()];
    let tree = Descent::of(recording).walk().into_iter().map(|id| {
        let process = recording.process(id);
        let depth = process.parent.map_or(0, |parent| depths[parent.0 as usize] + 1);
        depths[id.0 as usize] = depth;
        let phases = moments.phases(process, &children[id.0 as usize]);
        started_process(recording, process, depth, phases)
    });
    tree.collect()
}

fn started_process(
    recording: &Recording,
    process: &Process,
    depth: u32,
    phases: Phases,
) -> StartedProcess {
    let end = process.end;
    let usage = end.map(|end| end.usage);
    StartedProcess {
        pid: process.pid,
        parent: process.parent.map(|parent| recording.process(parent).pid),
        depth,
        program: process.execs.last().map(|exec| base_name(recording, exec.path)),
        line: recording.line_of(process.id).map(|frame| recording.shown_line(frame)),
        started: process.started,
        lived: end.map_or(Nanos(0), |end| since(process.started, end.at)),
        cpu: usage.map_or(Micros(0), |used| Micros(used.user.0.saturating_add(used.system.0))),
        phases,
    }
}
