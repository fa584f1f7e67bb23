//! Programs searched over PATH: full paths.
//!
//! By its full path a program is not searched. Which directories of PATH others need, no recording
//! of this run tells.

use std::collections::HashSet;

use explain::{Finding, PathSource, SourcePath, Storm, StormSource, listed};
use recording::{Kind, Name, Outcome, Recording};
use term::quoted;

use crate::binding::base_name;
use crate::cure::{CommandPath, Cure, CureActor, CureChange, RefusedCure, StormCures};
use crate::plan::PlanInput;
use crate::prediction::CureEffect;
use script::builtins::is_always_inside;

/// The most programs whose full paths are told.
const NAMES: usize = 3;
/// execvp(3) goes on to the next directory after this error too.
const EACCES: u16 = 13;

pub(crate) fn cures(input: &PlanInput, finding: &Finding) -> StormCures {
    let shorter = RefusedCure {
        storm: Storm::Path,
        text: "A shorter PATH".to_owned(),
        why: "which of its directories another program needs, no recording of this one tells"
            .to_owned(),
    };
    let mut all = StormCures { not_chosen: vec![shorter], ..StormCures::default() };
    let known: Vec<_> = finding.sources.iter().filter_map(known).take(NAMES).collect();
    if known.is_empty() {
        return all;
    }
    let names: HashSet<&[u8]> = known.iter().map(|(name, _)| name.bytes()).collect();
    let effect = CureEffect::of(failed_searches(input.recording, &names));
    let predicted = input.predictor.predict(&effect);
    if !predicted.is_worth_it() {
        all.not_chosen.push(RefusedCure {
            storm: Storm::Path,
            text: "Programs by their full paths".to_owned(),
            why: predicted.too_little(),
        });
        return all;
    }
    let names: Vec<_> = known
        .iter()
        .map(|(name, path)| format!("`{}` is {}", quoted(name), quoted(path.path())))
        .collect();
    let programs = known
        .into_iter()
        .map(|(command, path)| CommandPath { command: command.clone(), path: path.clone() });
    all.cures.push(Cure {
        storm: Storm::Path,
        text: format!(
            "Name by its full path what is run often, nothing is searched then: {}",
            listed(&names)
        ),
        command: None,
        actor: CureActor::Author,
        owner: None,
        change: CureChange::NameFullPaths { programs: programs.collect() },
        risk: Some("where the program lies elsewhere, the path must be changed".to_owned()),
        predicted,
        effect,
    });
    all
}

/// The lookups of these names that sent a search to the next directory.
fn failed_searches(recording: &Recording, names: &HashSet<&[u8]>) -> impl Iterator<Item = usize> {
    let events = recording.events.iter().enumerate().filter(|(_, event)| {
        let is_probe = matches!(event.kind(), Kind::Exec | Kind::Stat | Kind::Access);
        let goes_on = event.is_missing() || event.outcome == Outcome::Failed(EACCES);
        let is_named = |path| names.contains(base_name(recording.path(path)));
        is_probe && goes_on && !event.in_loader && event.path.is_some_and(is_named)
    });
    events.map(|(number, _)| number)
}

/// A command that is searched for, and where it is. What bash may do itself (`run --builtins`) is
/// what it finds by name alone.
fn known(source: &StormSource) -> Option<(&Name, &SourcePath)> {
    match source {
        StormSource::Path(PathSource::Command { command, executed: Some(path), .. })
            if !is_always_inside(&command.to_string()) && !path.bytes().is_empty() =>
        {
            Some((command, path))
        }
        _ => None,
    }
}
