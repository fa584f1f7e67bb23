//! Modulepaths, against the real Modules and Lmod.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod audit;
mod avail;
mod avail_random;
mod avail_trees;
mod cache;
mod cache_times;
mod cache_watch;
mod site;
mod support;
mod tcl;
mod tidy;
mod tree;
