//! `becalm modules`.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod answer;
mod answer_changes;
mod answer_hostile;
mod answer_killed;
mod answer_lmod;
mod answer_lmod_children;
mod answer_lmod_hook;
mod answer_lmod_terminal;
mod answer_pager;
mod answer_random;
mod answer_replaced;
mod answer_start;
mod answer_trees;
mod audit;
mod avail;
mod cache;
mod calm;
mod explain;
mod hook;
mod scene;
mod status;
mod tidy;
mod waits;
mod watch;

/// The program under test.
const BECALM: &str = env!("CARGO_BIN_EXE_becalm");
