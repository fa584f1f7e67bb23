//! The verbs, one file each.

pub mod attach;
pub mod browse;
pub mod calibrate;
pub mod calm;
pub mod check;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod elf;
pub mod export;
pub mod fix;
pub mod fork;
pub mod image;
pub mod lab;
pub mod man;
pub mod merge;
pub mod modules;
pub mod prove;
pub mod python;
pub mod record;
pub mod rehearse;
pub mod report;
pub mod run;
pub mod scale;
pub mod schema;
pub mod undo;
