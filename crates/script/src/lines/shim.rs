//! Programs that execute another in their place: a version manager's `python3`, `#!/usr/bin/env …`, a
//! script that ends in `exec`. What they do before is not always for that.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use recording::{Descent, Nanos, Process, Recording};
use schemars::JsonSchema;
use serde::Serialize;

use super::account::base_name;
use super::phases::{PhaseMoments, since};

/// A program that is executed to execute another, in the same process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
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
    pub enoent: u64,
}

/// The shims of a recording, the most costly first.
pub(super) fn shims(recording: &Recording, moments: &PhaseMoments) -> Vec<Shim> {
    let mut shims: HashMap<(String, String, Vec<String>), Shim> = HashMap::new();
    let helpers = helpers(recording);
    for process in &recording.processes {
        let Some(one) = shim(recording, moments, process, helpers[process.id.0 as usize]) else {
            continue;
        };
        let program = (one.path.clone(), one.runs.clone(), one.through.clone());
        match shims.entry(program) {
            Entry::Occupied(known) => {
                let known = known.into_mut();
                known.times += 1;
                known.time += one.time;
                known.processes += one.processes;
                known.enoent += one.enoent;
            }
            Entry::Vacant(new) => {
                new.insert(one);
            }
        }
    }
    let mut shims: Vec<_> = shims.into_values().collect();
    shims.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.path.cmp(&b.path)));
    shims
}

fn shim(
    recording: &Recording,
    moments: &PhaseMoments,
    process: &Process,
    helpers: u64,
) -> Option<Shim> {
    let [first, between @ .., last] = &process.execs[..] else { return None };
    Some(Shim {
        path: recording.shown(first.path),
        runs: recording.shown(last.path),
        through: between.iter().map(|exec| base_name(recording, exec.path)).collect(),
        times: 1,
        time: since(first.at, last.at),
        processes: helpers,
        enoent: moments.missing(process),
    })
}

/// Of each process: how many processes it and those below it started before its last program.
fn helpers(recording: &Recording) -> Vec<u64> {
    let processes = &recording.processes;
    let descent = Descent::of(recording);
    let replaced = processes.iter().filter(|process| process.execs.len() > 1);
    let last = |process: &Process| process.execs.last().map_or(Nanos(0), |exec| exec.at);
    let mut replaced: Vec<_> = replaced.map(|process| (last(process), process.id)).collect();
    replaced.sort_unstable();
    let mut started: Vec<_> =
        processes.iter().map(|process| (process.started, process.id)).collect();
    started.sort_unstable();
    let mut started = started.into_iter().peekable();
    let mut counts = CountsBefore(vec![0; processes.len() + 1]);
    let mut helpers = vec![0; processes.len()];
    for (last, process) in replaced {
        while let Some((_, before)) = started.next_if(|(at, _)| *at < last) {
            counts.add(descent.places(before).start);
        }
        let places = descent.places(process);
        helpers[process.0 as usize] = counts.before(places.end) - counts.before(places.start + 1);
    }
    helpers
}

/// How many were counted before a place, in the logarithm of steps (a Fenwick tree).
struct CountsBefore(Vec<u64>);

impl CountsBefore {
    fn add(&mut self, place: usize) {
        let mut at = place + 1;
        while at < self.0.len() {
            self.0[at] += 1;
            at += at & at.wrapping_neg();
        }
    }

    fn before(&self, place: usize) -> u64 {
        let mut at = place;
        let mut sum = 0;
        while at > 0 {
            sum += self.0[at];
            at &= at - 1;
        }
        sum
    }
}
