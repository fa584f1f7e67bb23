#![doc = include_str!("../README.md")]
//!
//! The page is drawn with HTML and SVG by a few hundred lines of JavaScript of ours: the smallest
//! charting libraries with a timeline and a treemap are larger than all of a usual page, and what a
//! recording says would pass through code that nobody here has read.
//!
//! | file | what it holds |
//! |---|---|
//! | `start` | one start: its verdict, and all that the views show of it |
//! | `pictured_cause` | the causes that have a colour |
//! | `call_use` | what each call counts for |
//! | `count_tree` | a tree of counts, cut to a size |
//! | `directories` | operations and failed lookups by directory |
//! | `libraries` | the libraries of each program, as they need each other |
//! | `modules` | imports and modulefiles by package |
//! | `timeline` | the processes, and when they did what |
//! | `waits` | what the cost model needs to work the wait out again |
//! | `comparison` | two starts side by side |
//! | `rank_map` | the ranks of a job |
//! | `returned_memory` | memory that goes back between two passes |
//! | `embedded` | data in a page, so that nothing of it can be taken for markup |
//! | `page` | the HTML file (`page/`: its markup, style and script) |

mod call_use;
mod comparison;
mod count_tree;
mod directories;
mod embedded;
mod libraries;
mod modules;
mod page;
mod pictured_cause;
mod rank_map;
mod returned_memory;
mod start;
mod timeline;
mod waits;

use std::io::{self, Write};

use serde::Serialize;

pub use comparison::Comparison;
pub use rank_map::{PicturedRank, RankMap};
pub use start::{PicturedCure, PicturedStart};

/// All that a page shows.
#[derive(Debug, Serialize)]
pub struct Picture {
    /// The version of becalm that made it.
    version: &'static str,
    /// The names of the causes, by the numbers that stand for them.
    causes: Vec<&'static str>,
    /// The starts: one; or one before and one after a change.
    starts: Vec<PicturedStart>,
    /// How two of them compare.
    comparison: Option<Comparison>,
    /// The ranks of a job.
    ranks: Option<RankMap>,
    /// What else is to be said of all of it.
    note: Option<String>,
}

impl Picture {
    /// A picture of one start, or of several that are chosen from.
    pub fn of_starts(starts: Vec<PicturedStart>) -> Picture {
        let (version, causes) = (env!("CARGO_PKG_VERSION"), pictured_cause::names());
        Picture { version, causes, starts, comparison: None, ranks: None, note: None }
    }

    /// A picture of a start before and after a change.
    pub fn of_two(before: PicturedStart, after: PicturedStart, compared: Comparison) -> Picture {
        let starts = Picture::of_starts(vec![before, after]);
        Picture { comparison: Some(compared), ..starts }
    }

    /// A picture of a job's ranks.
    pub fn of_ranks(ranks: RankMap) -> Picture {
        Picture { ranks: Some(ranks), ..Picture::of_starts(Vec::new()) }
    }

    /// The same with a sentence above it, about all of it.
    pub fn with_note(self, note: String) -> Picture {
        Picture { note: Some(note), ..self }
    }

    /// Writes the page.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        page::write(self, out)
    }
}
