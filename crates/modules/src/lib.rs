#![doc = include_str!("../README.md")]
//!
//! | directory | what it holds |
//! |---|---|
//! | `tree` | a modulepath as `modulecmd` walks it, without its traps |
//! | `tcl` | the part of Tcl that rc files are written in, and no more: nothing is evaluated |
//! | `site` | which Modules a site has, where, and how it is configured |
//! | `index` | the names of a modulepath in one file |
//! | `watched` | whether a tree is still what its index says, told by a process that watches it |
//! | `avail` | `module avail` without Tcl, the same answer or none |
//! | `remember` | the tool's own answers, given again as long as all they depended on is as it was |
//! | `audit` | what `avail`, `load` and `whatis` cost on a tree, and why |
//! | `status` | how modulepaths are, and which steps would help |
//! | `calm` | all of these as one plan for a site |
//! | `explain` | what the calls of one `module` command are for |
//! | `cache` | caches that can be trusted: checked, built, kept fresh |
//! | `at_once` | looks at a filesystem, many at once where each waits for a server |
//! | `tidy` | the cookbook's steps, where they change nobody's view and slow no `load` down |

mod at_once;
pub mod audit;
pub mod avail;
pub mod cache;
pub mod calm;
mod captured;
pub mod explain;
pub mod index;
mod recorded;
pub mod remember;
pub mod site;
pub mod status;
pub mod tcl;
pub mod tidy;
pub mod tree;
pub mod watched;
