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
//! | `run` | what was recorded, and whether all of it was seen |
//! | `report` | what `becalm report` answers |
//! | `findings` | what `becalm check` answers |
//! | `diff` | what `becalm diff` answers |
//! | `export` | what `becalm export -o` answers |

pub mod number;
pub mod style;
pub mod width;

mod diff;
mod export;
mod findings;
mod json;
mod load;
mod plain;
mod print;
mod report;
mod run;
mod table;

pub use diff::{Diff, PathsDiff};
pub use export::Export;
pub use findings::Check;
pub use json::json;
pub use load::{LoadError, load};
pub use plain::{plain, quoted};
pub use print::{print, warn};
pub use report::{Below, Report};
pub use run::Run;
pub use table::{Cell, Column, Table};
