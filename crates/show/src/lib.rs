//! Screens of verbs that have not moved beside their verbs yet. What they share is the crate
//! `term`.

mod aslr;
mod calibration;
mod fork;
mod profile;
mod proof;
mod rehearsal;
mod scale;

pub use aslr::{AslrAnalysis, AslrCampaign, AslrScan};
pub use calibration::calibration;
pub use fork::{ForkBench, ForkCollapse};
pub use profile::{Profiled, Sampling};
pub use proof::proof;
pub use recording::shown_name;
pub use rehearsal::{By, Rehearsal};
pub use scale::Scale;
pub use term::{
    Cell, Column, Table, Waiting, json, number, plain, print, quoted, style, warn, width,
};
