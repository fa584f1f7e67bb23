#![doc = include_str!("../README.md")]
//!
//! | directory | what it holds |
//! |---|---|
//! | `tree` | a modulepath as `modulecmd` walks it, without its traps |
//! | `tcl` | the part of Tcl that rc files are written in, and no more: nothing is evaluated |
//! | `site` | which Modules a site has, where, and how it is configured |
//! | `index` | the names of a modulepath in one file |
//! | `avail` | `module avail` without Tcl, the same answer or none |
//! | `remember` | the tool's own answers, given again as long as all they depended on is as it was |
//! | `audit` | what `avail`, `load` and `whatis` cost on a tree, and why |
//! | `cache` | caches that can be trusted: checked, built, kept fresh |
//! | `tidy` | the cookbook's steps, where they change nobody's view and slow no `load` down |

pub mod audit;
pub mod avail;
pub mod cache;
pub mod index;
mod recorded;
pub mod remember;
pub mod site;
pub mod tcl;
pub mod tidy;
pub mod tree;
