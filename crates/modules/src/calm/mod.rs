//! All that calms a site's modulepaths, as one plan: the tree tidied, a cache and an index for each
//! modulepath, a file that shells evaluate to ask becalm first, and units that keep it true.
//!
//! Each part is planned for each modulepath by itself. What does not help, is not ours to change, or
//! would change what anybody sees or waits for, is left out, with the reason.
//!
//! | file | what it holds |
//! |---|---|
//! | `part` | one part of a plan, and what is decided about it |
//! | `plan` | from trees to decisions |
//! | `owner` | whether a modulepath is one's own to change |
//! | `counts` | the calls of an `avail`, before and after |
//! | `files` | files that are made, as steps for `remedy` |
//! | `hook_file` | what shells evaluate |
//! | `upkeep` | units of systemd that keep indexes and caches true |

mod counts;
mod files;
mod hook_file;
mod owner;
mod part;
mod plan;
mod upkeep;

pub use files::{PlannedFile, steps};
pub use hook_file::{HookFile, hook_files};
pub use part::{CalmPart, CalmPartKind, CalmState};
pub use plan::{CalmPlan, CalmRequest, Upkeep, plan};
pub use upkeep::{TIMER, crontab_line};
