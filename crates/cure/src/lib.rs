#![doc = include_str!("../README.md")]
//!
//! | file | what it holds |
//! |---|---|
//! | `cure` | a cure, as data |
//! | `loader`, `python`, … | one storm a file: its cures |
//! | `calm_file` | what `becalm run` does at launch, as a file |
//! | `inside` | which processes bash does without, for certain |
//! | `machine` | what can be done where the reader is, which no recording tells |
//! | `plan` | the cures that `becalm fix` applies |
//!
//! What is not certain to help is no cure. A storm without one has a file that says why.

mod calm_file;
mod cure;
mod fork;
mod inside;
mod loader;
mod locale;
mod machine;
mod modules;
mod path;
mod plan;
mod python;
mod repeat;
mod walk;

use explain::{Finding, Storm};
use recording::Recording;

pub use calm_file::{
    CalmChange, CalmEnvironment, CalmFile, CalmFileError, CalmImage, CalmSavings, CalmWait,
    ReliedFile, ShownCopy,
};
pub use cure::{CloserLook, CommandPath, Cure, CureActor, CureChange, StormCures, TakenAway};
pub use loader::belongs_to_the_system;
pub use machine::Machine;
pub use plan::CurePlan;
pub use python::events_below;

/// What can be done about a storm of this recording, on this machine.
pub fn cures(recording: &Recording, finding: &Finding, machine: &Machine) -> StormCures {
    match finding.storm {
        Storm::Loader | Storm::Dlopen => loader::cures(recording, finding, machine),
        Storm::Python => python::cures(recording, finding, machine),
        Storm::Modules => modules::cures(finding),
        Storm::Fork => fork::cures(recording, finding, machine),
        Storm::Locale => locale::cures(),
        Storm::Path => path::cures(finding),
        Storm::Repeat => repeat::cures(recording, finding),
        Storm::Walk => walk::cures(),
    }
}
