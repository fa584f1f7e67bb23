//! How a site's modulepaths are: what commands cost there, how old and how true caches and indexes
//! are, and which steps of Modules' cookbook 'Reduce I/O load' are done or would help.
//!
//! | file | what it holds |
//! |---|---|
//! | `modulepath` | one modulepath: its costs, its cache, its index |
//! | `step` | the cookbook's steps, and becalm's own |

mod modulepath;
mod step;

pub use modulepath::{ModulepathStatus, StoredCopy, StoredState};
pub use step::{IoStep, StepState, StepStatus};

use crate::audit::Audit;
use crate::calm::CalmPlan;
use crate::index::IndexStore;
use crate::site::ModulesSite;

/// What a status is made of.
pub struct StatusGround<'a> {
    /// The site's Modules.
    pub site: &'a ModulesSite,
    /// Where indexes are.
    pub store: &'a IndexStore,
    /// What there is to do.
    pub plan: &'a CalmPlan,
    /// What commands cost, and what is wrong.
    pub audit: &'a Audit,
}

/// Each modulepath that can be looked at, as the last of the users sees it: for root, nobody, whom
/// commands are run as.
pub fn modulepaths(ground: &StatusGround<'_>) -> Vec<ModulepathStatus> {
    let trees = ground.plan.views.last().map(|view| &view.trees[..]).unwrap_or_default();
    trees.iter().map(|tree| ModulepathStatus::of(tree, ground)).collect()
}

/// Each step: done, helpful, or left out for a reason.
pub fn steps(ground: &StatusGround<'_>) -> Vec<StepStatus> {
    step::all(ground)
}
