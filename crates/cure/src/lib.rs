#![doc = include_str!("../README.md")]
//!
//! | file | what it holds |
//! |---|---|
//! | `cure` | a cure, as data |
//! | `plan` | all cures of a start, and those that `becalm fix` applies |
//! | `loader`, `python`, … | one storm a file: its cures |
//! | `grow` | files bound that have to grow for it |
//! | `image_cure` | an image of directories, whichever storm it is of |
//! | `image_looks` | what `becalm run` asks of an image's sources at its start |
//! | `launched_image` | the image that a command was started in already |
//! | `prediction` | what a start does without the calls that a cure takes away |
//! | `binding` | which calls are no longer made once files are bound |
//! | `environments` | which variables its programs' loaders read |
//! | `search_value` | which order of a list's directories changes nothing that is found, and its value |
//! | `calm_file` | what `becalm run` does at launch, as a file |
//! | `inside` | which processes bash and dash do without, for certain |
//! | `reach` | which shells would have the library that does |
//! | `machine` | what can be done where the reader is, which no recording tells |
//!
//! What is not predicted to help is no cure. A storm without one has a file that says why.

mod binding;
mod calm_file;
mod configuration;
mod cure;
mod environments;
mod files;
mod fork;
mod git;
mod grow;
mod image_cure;
mod image_looks;
mod inside;
mod launched_image;
mod loader;
mod locale;
mod machine;
mod modules;
mod pack;
mod path;
mod plan;
mod prediction;
mod python;
mod reach;
mod read_ahead;
mod repeat;
mod search_list;
mod search_value;
mod walk;

pub use self::loader::loaded_files;
pub use binding::{belongs_to_the_system, named_and_not_shown};
pub use calm_file::{
    CalmChange, CalmEnvironment, CalmFile, CalmFileError, CalmImage, CalmImageBeside, CalmSavings,
    CalmWait, ReliedFile, ShownCopy,
};
pub use cure::{CloserLook, CommandPath, Cure, CureActor, CureChange, RefusedCure, StormCures};
pub use environments::{SeenStarts, seen_starts};
pub use machine::{FileWriter, Machine, ModuleCure};
pub use plan::{CureOptions, CurePlan, TakenAway, calm_file_name};
pub use prediction::{CurePrediction, PredictedStart};
pub use search_value::first_decides;
