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
//! | `findings` | what `becalm check` answers |
//! | `diff` | what `becalm diff` answers |
//! | `elf` | what `becalm elf tree` answers |
//! | `binding` | what `becalm elf bind` answers |
//! | `proof` | what `becalm prove` answers |
//! | `export` | what `becalm export -o` answers |

pub mod number;
pub mod style;
pub mod width;

mod binding;
mod diff;
mod elf;
mod export;
mod findings;
mod fix;
mod json;
mod load;
mod plain;
mod print;
mod proof;
mod report;
mod run;
mod table;
mod waiting;

pub use binding::Bound;
pub use diff::{Diff, PathsDiff};
pub use elf::Tree;
pub use export::Export;
pub use findings::Check;
pub use fix::Fix;
pub use json::json;
pub use load::{LoadError, load};
pub use plain::{plain, quoted};
pub use print::{print, warn};
pub use proof::proof;
pub use report::{Below, Report};
pub use run::Run;
pub use table::{Cell, Column, Table};
pub use waiting::Waiting;
