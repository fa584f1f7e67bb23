//! The verbs, one file each.

pub mod check;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod record;
pub mod report;
