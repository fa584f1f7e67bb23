//! Programs that only start another: a version manager's `python3`, `#!/usr/bin/env …`.

use recording::{Nanos, Process, Recording};
use serde::Serialize;

use super::account::base_name;
use super::phases::{Moments, since};

/// A program that is executed to execute another, in the same process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shim {
    /// What was asked for, as a path.
    pub path: String,
    /// What runs in the end, as a path.
    pub runs: String,
    /// The programs between, by name.
    pub through: Vec<String>,
    /// How many processes went this way.
    pub times: u64,
    /// How long that took, until the last program took over.
    #[serde(rename = "time_ns")]
    pub time: Nanos,
    /// How many processes were started on the way.
    pub processes: u64,
    /// How many programs were tried on the way that were not there.
    pub misses: u64,
}

/// The shims of a recording, the most costly first.
pub(super) fn shims(recording: &Recording, moments: &Moments) -> Vec<Shim> {
    let mut shims: Vec<Shim> = Vec::new();
    let helpers = helpers(recording);
    for process in &recording.processes {
        let Some(one) = shim(recording, moments, process, helpers[process.id.0 as usize]) else {
            continue;
        };
        let same = |known: &&mut Shim| {
            (&known.path, &known.runs, &known.through) == (&one.path, &one.runs, &one.through)
        };
        match shims.iter_mut().find(same) {
            Some(known) => {
                known.times += 1;
                known.time += one.time;
                known.processes += one.processes;
                known.misses += one.misses;
            }
            None => shims.push(one),
        }
    }
    shims.sort_by_key(|shim| std::cmp::Reverse(shim.time));
    shims
}

fn shim(recording: &Recording, moments: &Moments, process: &Process, helpers: u64) -> Option<Shim> {
    let [first, between @ .., last] = &process.execs[..] else { return None };
    Some(Shim {
        path: recording.shown(first.path),
        runs: recording.shown(last.path),
        through: between.iter().map(|exec| base_name(recording, exec.path)).collect(),
        times: 1,
        time: since(first.at, last.at),
        processes: helpers,
        misses: moments.missing(process),
    })
}

/// Of each process: how many processes it and those below it started before its last program.
fn helpers(recording: &Recording) -> Vec<u64> {
    let mut helpers = vec![0; recording.processes.len()];
    for process in &recording.processes {
        let mut above = process.parent;
        while let Some(parent) = above {
            let parent = recording.process(parent);
            if parent.execs.len() > 1
                && parent.execs.last().is_some_and(|last| process.started < last.at)
            {
                helpers[parent.id.0 as usize] += 1;
            }
            above = parent.parent;
        }
    }
    helpers
}
