//! What `avail`, `load` and `whatis` cost on a tree, and why.
//!
//! | file | what it holds |
//! |---|---|
//! | `calls` | system calls on a tree, by what they ask |
//! | `predict` | how many a command makes, from the tree and the release alone |
//! | `measure` | how many the real command makes |
//! | `finding` | one thing that is wrong or costs; the rules |
//! | `names`, `rc`, `path`, `cache` | the rules: names in a tree, rc files, modulepaths, caches |
//! | `census` | what there is in a tree, in numbers |
//! | `view` | the same as one user sees it |
//! | `report` | all of it as a value |
//! | `sarif`, `github` | findings as other programs take them |

mod cache;
mod calls;
mod census;
mod finding;
mod github;
mod measure;
mod names;
mod path;
mod predict;
mod rc;
mod report;
mod sarif;
mod view;

pub use calls::TreeCalls;
pub use census::Census;
pub use finding::{AuditFinding, AuditRule, Level};
pub use github::annotations;
pub use measure::{Measured, Timeout, measure};
pub use predict::{CommandPrediction, ModuleCommand, predict};
pub use rc::{Movable, WhyNot};
pub use report::{
    Audit, AuditRequest, AuditedModulepath, CommandCost, RuleSum, audit, crowded_module,
};
pub use sarif::sarif;
pub use view::UserView;
