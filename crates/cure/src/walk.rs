//! Directory walks: no cure.
//!
//! A walk is what the program was run for. The page of the storm tells what can be tried.

use explain::{Finding, Storm, StormSource, WalkSource};

use crate::cure::{RefusedCure, StormCures};
use crate::plan::PlanInput;

pub(crate) fn cures(_: &PlanInput, finding: &Finding) -> StormCures {
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
