//! The same path looked up again and again: only the time zone has a cure.
//!
//! glibc's tzset(3), which localtime(3) and strftime(3) call, looks the file up anew each time,
//! unless TZ names one.

use std::collections::HashSet;

use explain::{Finding, RepeatSource, Storm, StormSource};
use recording::{Kind, Nanos, ProcessId, Recording};
use term::number::count;

use crate::cure::{Cure, CureActor, CureChange, RefusedCure, StormCures};
use crate::plan::PlanInput;
use crate::prediction::CureEffect;

const LOCALTIME: &[u8] = b"/etc/localtime";

pub(crate) fn cures(input: &PlanInput, finding: &Finding) -> StormCures {
    let mut all = StormCures::default();
    match time_zone(input, finding) {
        Some(Ok(cure)) => all.cures.push(cure),
        Some(Err(why)) => all.not_chosen.push(RefusedCure {
            storm: Storm::Repeat,
            text: "TZ=:/etc/localtime".to_owned(),
            why,
        }),
        None => {}
    }
    all
}

fn time_zone(input: &PlanInput, finding: &Finding) -> Option<Result<Cure, String>> {
    let times = finding.sources.iter().find_map(|source| match source {
        StormSource::Repeat(RepeatSource::RepeatedPath { path, metadata_ops, .. })
            if path.bytes() == LOCALTIME =>
        {
            Some(*metadata_ops)
        }
        _ => None,
    })?;
    // Java reads TZ by rules of its own.
    let recording = input.recording;
    let mut execs = recording.processes.iter().flat_map(|process| &process.execs);
    if execs.any(|exec| recording.path(exec.image).ends_with(b"/java")) {
        return Some(Err("Java reads TZ by rules of its own".to_owned()));
    }
    let effect = CureEffect::of(repeated_reads(recording));
    let predicted = input.predictor.predict(&effect);
    if !predicted.is_worth_it() {
        return Some(Err(predicted.too_little()));
    }
    Some(Ok(Cure {
        storm: Storm::Repeat,
        text: format!(
            "Name the time zone: the C library then reads its file once, and not {} times",
            count(times)
        ),
        command: Some(format!("TZ=:/etc/localtime {}", input.line)),
        actor: CureActor::You,
        owner: None,
        change: CureChange::SetVariable {
            variable: "TZ".to_owned(),
            value: ":/etc/localtime".to_owned(),
        },
        risk: Some("programs that read TZ themselves find it set".to_owned()),
        predicted,
        effect,
    }))
}

/// All looks at the file but the first of each program and kind.
fn repeated_reads(recording: &Recording) -> impl Iterator<Item = usize> {
    let mut first: HashSet<(ProcessId, Option<Nanos>, Kind)> = HashSet::new();
    let events = recording.events.iter().enumerate().filter(|(_, event)| {
        event.is_metadata() && event.path.is_some_and(|path| recording.path(path) == LOCALTIME)
    });
    events.filter_map(move |(number, event)| {
        let exec = recording.program(event.process, event.start).map(|exec| exec.at);
        (!first.insert((event.process, exec, event.kind()))).then_some(number)
    })
}
