//! The verbs, one file each.

pub mod check;
pub mod diff;
pub mod doctor;
pub mod elf;
pub mod export;
pub mod fix;
pub mod prove;
pub mod record;
pub mod report;
pub mod undo;
