//! Whether all ranks of a job have one layout, and what makes them differ.
//!
//! Each rank starts the command up to its first instruction, writes a line about it, and ends it
//! ([`RankLayout`]). Whoever has all lines compares them ([`compare`]).

mod compare;
mod rank;

pub use compare::{LayoutDifference, LayoutGroup, LayoutVerdict, compare};
pub use rank::{RankLayout, SCHEMA, look};
pub(crate) use rank::{beginnings, hash};
