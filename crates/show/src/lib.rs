//! Screens of verbs that have not moved beside their verbs yet. What they share is the crate
//! `term`.

mod calibration;
mod proof;
mod rehearsal;
mod scale;

pub use calibration::calibration;
pub use proof::proof;
pub use recording::shown_name;
pub use rehearsal::{By, Rehearsal};
pub use scale::Scale;
pub use term::{
    Cell, Column, Table, Waiting, json, number, plain, print, quoted, style, warn, width,
};
