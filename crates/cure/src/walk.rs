//! Directory walks: no cure, but what git can be told.
//!
//! A walk is what the program was run for. The page of the storm tells what can be tried.

use explain::{Finding, Storm, StormSource, WalkSource};

use crate::cure::{RefusedCure, StormCures};
use crate::git;
use crate::plan::PlanInput;

pub(crate) fn cures(input: &PlanInput, finding: &Finding) -> StormCures {
    let walker = finding.sources.iter().find_map(|source| match source {
        StormSource::Walk(WalkSource::Walker { program, .. }) if program == "git" => Some(program),
        _ => None,
    });
    if let Some(program) = walker {
        let mut all = StormCures::default();
        git::advise(input, Storm::Walk, program, &mut all);
        return all;
    }
    let tree = finding.sources.iter().find_map(|source| match source {
        StormSource::Walk(WalkSource::WalkedTree { directory, .. }) => Some(directory),
        _ => None,
    });
    let refused = tree.map(|directory| RefusedCure {
        storm: Storm::Walk,
        text: format!("An image of {directory}"),
        why: "whoever walks a tree wants to see what is in it now, and an image shows what was"
            .to_owned(),
    });
    StormCures { not_chosen: refused.into_iter().collect(), ..StormCures::default() }
}
