//! Lmod's system cache: a directory with `spiderT.lua` (`moduleT.lua` before Lmod 7), which every
//! `module` command of every user evaluates as Lua, whoever owns it.
//!
//! | file | what it holds |
//! |---|---|
//! | `table` | Lua tables of literals, read and never evaluated |
//! | `spider` | what it records |
//! | `privacy` | what of it not everyone may read |
//! | `check` | is it fresh, whole and to be trusted? |
//! | `build` | a new one, by Lmod's own tool |

mod build;
mod check;
mod privacy;
mod spider;
mod table;

pub use build::{LmodError, PrivateModulepath, build, tool};
pub use check::check;
pub use spider::{Spider, parse};
pub use table::TableError;
