//! Programs searched over PATH: full paths.
//!
//! By its full path a program is not searched. Which directories of PATH others need, no recording
//! of this run tells.

use explain::{Finding, PathSource, SourcePath, Storm, StormSource, listed};
use recording::Name;
use term::quoted;

use crate::cure::{CommandPath, Cure, CureActor, CureChange, StormCures, TakenAway};
use crate::inside::options;

/// The most programs whose full paths are told.
const NAMES: usize = 3;

pub(crate) fn cures(finding: &Finding) -> StormCures {
    let known: Vec<_> = finding.sources.iter().filter_map(known).take(NAMES).collect();
    let metadata_ops: u64 = known.iter().map(|(_, _, failed)| failed).sum();
    if known.is_empty() || metadata_ops * 2 < finding.avoidable {
        return StormCures::default();
    }
    let names: Vec<_> = known
        .iter()
        .map(|(name, path, _)| format!("`{}` is {}", quoted(name), quoted(path.path())))
        .collect();
    let programs = known
        .into_iter()
        .map(|(command, path, _)| CommandPath { command: command.clone(), path: path.clone() });
    let cure = Cure {
        storm: Storm::Path,
        text: format!(
            "Name by its full path what is run often, nothing is searched then: {}",
            listed(&names)
        ),
        command: None,
        actor: CureActor::Author,
        change: CureChange::NameFullPaths { programs: programs.collect() },
        predicted: Some(TakenAway { metadata_ops, enoent: None }),
    };
    StormCures { cures: vec![cure], looks: Vec::new() }
}

/// A command that is searched for, where it is, and how many operations found nothing. What bash
/// may do itself (`run --builtins`) is what it finds by name alone.
fn known(source: &StormSource) -> Option<(&Name, &SourcePath, u64)> {
    match source {
        StormSource::Path(PathSource::Command {
            command, failed, executed: Some(path), ..
        }) if options(command.bytes()).is_none() && !path.bytes().is_empty() => {
            Some((command, path, *failed))
        }
        _ => None,
    }
}
