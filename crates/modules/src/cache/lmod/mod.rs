//! Lmod's system cache: a directory with `spiderT.lua`, which every `module` command of every user
//! evaluates as Lua, whoever owns it.
//!
//! | file | what it holds |
//! |---|---|
//! | `table` | Lua tables of literals, read and never evaluated |
//! | `spider` | what `spiderT.lua` records |
//! | `check` | is it fresh, whole and to be trusted? |
//! | `build` | a new one, by Lmod's own tool |

mod build;
mod check;
mod spider;
mod table;

pub use build::{LmodError, build, tool};
pub use check::check;
pub use spider::{Spider, parse};
pub use table::TableError;
