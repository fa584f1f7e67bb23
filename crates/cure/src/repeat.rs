//! The same path looked up again and again: only the time zone has a cure.
//!
//! glibc's tzset(3), which localtime(3) and strftime(3) call, looks the file up anew each time,
//! unless TZ names one.

use explain::{Finding, RepeatSource, Storm, StormSource};
use recording::Recording;
use term::number::count;

use crate::cure::{Cure, CureActor, CureChange, StormCures};

const LOCALTIME: &[u8] = b"/etc/localtime";

pub(crate) fn cures(recording: &Recording, finding: &Finding) -> StormCures {
    StormCures { cures: time_zone(recording, finding).into_iter().collect(), looks: Vec::new() }
}

fn time_zone(recording: &Recording, finding: &Finding) -> Option<Cure> {
    let times = finding.sources.iter().find_map(|source| match source {
        StormSource::Repeat(RepeatSource::RepeatedPath { path, metadata_ops, .. })
            if path.bytes() == LOCALTIME =>
        {
            Some(*metadata_ops)
        }
        _ => None,
    })?;
    // Java reads TZ by rules of its own.
    let mut execs = recording.processes.iter().flat_map(|process| &process.execs);
    let runs_java = execs.any(|exec| recording.path(exec.image).ends_with(b"/java"));
    if times * 2 <= finding.metadata_ops || runs_java {
        return None;
    }
    let line = recording.header.command_line()?;
    Some(Cure {
        storm: Storm::Repeat,
        text: format!(
            "Name the time zone: the C library then reads its file once, and not {} times",
            count(times)
        ),
        command: Some(format!("TZ=:/etc/localtime {line}")),
        actor: CureActor::Launcher,
        change: CureChange::SetVariable {
            variable: "TZ".to_owned(),
            value: ":/etc/localtime".to_owned(),
        },
        predicted: None,
    })
}
