//! What becalm shows a person: tables that fit the terminal, numbers that read at a glance.
//!
//! Everything here returns text with colour in it; [`print`] takes the colour out where there
//! is no terminal for it. Nothing that came from a recording reaches a terminal raw: [`Table`]
//! and [`plain`] spell control characters out.
//!
//! | file | what it holds |
//! |---|---|
//! | `table` | rows and columns, fitted to a width |
//! | `number` | counts, times, shares and changes as a person reads them |
//! | `width` | how wide the terminal is, and text cut to fit |
//! | `style` | which colour says what |
//! | `plain` | text without control characters, and quoted for a shell |
//! | `json` | any value as JSON that is safe on a terminal |
//! | `load` | a recording from its file, with a progress bar where that takes long |
//! | `print` | the way out |
//! | `waiting` | a bar for work that takes over a second |
//! | `run` | what was recorded, and whether all of it was seen |
//! | `report` | what `becalm report` answers |
//! | `ranks` | what `becalm report` answers on many ranks |
//! | `merged` | what `becalm merge` answers |
//! | `diff` | what `becalm diff` answers |
//! | `elf` | what `becalm elf tree` answers |
//! | `binding` | what `becalm elf bind` answers |
//! | `profile` | what `becalm profile` answers |
//! | `proof` | what `becalm prove` answers |
//! | `python` | what `becalm python scan` answers |
//! | `modules` | what `becalm modules …` answers |
//! | `calibration` | what `becalm rehearse --calibrate` answers |
//! | `rehearsal` | what `becalm rehearse` answers |
//! | `scale` | what `becalm scale` answers |
//! | `packed` | what `becalm image build` answers |
//! | `unpacked` | what `becalm image extract` answers |
//! | `export` | what `becalm export -o` answers |
//! | `aslr` | what `becalm aslr` answers, verb by verb |
//! | `fork` | what `becalm fork` answers, verb by verb |
//! | `image` | what `becalm image inspect` and `overlay` answer |

pub mod number;
pub mod style;
pub mod width;

mod aslr;
mod binding;
mod calibration;
mod diff;
mod elf;
mod export;
mod fork;
mod image;
mod json;
mod load;
mod merged;
mod modules;
mod packed;
mod print;
mod profile;
mod proof;
mod python;
mod ranks;
mod rehearsal;
mod report;
mod run;
mod scale;
mod table;
mod unpacked;
mod waiting;

pub use aslr::{AslrAnalysis, AslrCampaign, AslrScan, AslrVerified};
pub use binding::Bound;
pub use calibration::calibration;
pub use diff::{Diff, PathsDiff};
pub use elf::Tree;
pub use export::Export;
pub use fork::{ForkBench, ForkCollapse, ForkLines};
pub use image::{Inspected, Overlaid};
pub use json::json;
pub use load::{LoadError, load, load_rank, load_ranks};
pub use merged::Merged;
pub use modules::{
    CacheAnswer, IndexAnswer, ModulesAudit, ModulesCache, ModulesHook, ModulesIndex, ModulesTidy,
};
pub use packed::Packed;
pub use print::{print, warn};
pub use profile::{Profiled, Sampling};
pub use proof::proof;
pub use python::PythonScan;
pub use ranks::{Figures, NodeRow, RankRow, RanksReport, Spread};
pub use recording::{plain, quoted, shown_name};
pub use rehearsal::{By, Rehearsal};
pub use report::{Below, Report};
pub use run::Run;
pub use scale::Scale;
pub use table::{Cell, Column, Table};
pub use unpacked::Unpacked;
pub use waiting::Waiting;
