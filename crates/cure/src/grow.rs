//! Files that have no room for the paths of their libraries: bound all the same, if they may grow.
//!
//! By default none does: whoever installed them may compare their sizes, and a build id may have to move.

use std::path::{Path, PathBuf};

use explain::Storm;
use loader::bind::{BindError, BindOptions};
use term::number::counted;

use crate::binding::{BoundAs, effect, simulated};
use crate::cure::{Cure, CureActor, CureChange};
use crate::loader::{BoundFiles, changed};
use crate::plan::{CureOptions, PlanInput};
use crate::prediction::CurePrediction;

/// A directory of fewer parts, such as `/opt`, is no store.
const STORE_PARTS: usize = 3;

/// The cure, where it brings a tenth more than what is done without it.
pub(crate) fn cure(
    input: &PlanInput,
    files: &[PathBuf],
    bound: &BoundFiles,
) -> Result<Option<Cure>, BindError> {
    let PlanInput { recording, options, .. } = input;
    let bind = BindOptions { grow: true, ..options.bind.clone() };
    let how = CureOptions { bind, explain: options.explain, progress: options.progress };
    let grown = simulated(recording, files, &how, BoundAs::Yours)?;
    let effect = effect(recording, &grown);
    let predicted = input.predictor.predict(&effect);
    let best = bound.cures.first().map_or(predicted.before, |cure| cure.predicted.after);
    let more = CurePrediction { before: best, ..predicted };
    if grown.changes.is_empty() || !more.is_worth_it() {
        return Ok(None);
    }
    let cramped = counted(bound.in_place.cramped as u64, "file that has", "files that have");
    let store = store(files).map_or(String::new(), |store| {
        format!(
            "; bound with all of its tree (becalm elf bind --dry-run {}), a file may have room as it is",
            term::quoted_path(&store)
        )
    });
    Ok(Some(Cure {
        storm: Storm::Loader,
        text: format!(
            "Bind {}, and let {cramped} no room for the paths grow by a segment",
            counted(grown.changes.len() as u64, "file", "files"),
        ),
        command: Some(format!("becalm fix --apply --grow -- {}", input.line)),
        actor: CureActor::You,
        owner: None,
        change: CureChange::GrowFiles { files: changed(&grown) },
        risk: Some(format!("a build id that has to move is missing in core dumps{store}")),
        predicted,
        effect,
    }))
}

/// The directory that several prefixes lie in, if all files do.
fn store(files: &[PathBuf]) -> Option<PathBuf> {
    let directories = || files.iter().filter_map(|file| file.parent());
    let first = directories().next()?;
    let holds_all = |above: &&Path| directories().all(|directory| directory.starts_with(above));
    let store = first.ancestors().find(holds_all)?;
    let is_prefix = directories().all(|directory| directory.parent() == Some(store));
    let is_store = !is_prefix && store.components().count() > STORE_PARTS;
    is_store.then(|| store.to_owned())
}
