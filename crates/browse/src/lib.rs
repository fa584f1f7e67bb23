#![doc = include_str!("../README.md")]
//!
//! | file | what it holds |
//! |---|---|
//! | `counts` | what each call counts for |
//! | `call_tree` | calls in a tree |
//! | `view/` | the trees: storms, processes, directories, and the rows of `becalm report` |
//! | `typed_filter` | which calls are counted |
//! | `cursor` | where in a list, and which part of it is seen |
//! | `outline` | a tree on the screen: what is open, in which order |
//! | `call_list` | the calls behind a row |
//! | `page` | text to scroll: all of one call, and the help |
//! | `browser` | all of it together |
//! | `keys` | what each key does |
//! | `screen/` | what is drawn where |
//! | `terminal` | the terminal itself, taken and given back |

mod browser;
mod call_list;
mod call_tree;
mod counts;
mod cursor;
mod keys;
mod outline;
mod page;
mod screen;
mod terminal;
mod typed_filter;
mod view;

pub use browser::Browser;
pub use counts::CallCounts;
pub use keys::Reaction;
pub use terminal::{NoTerminal, check_terminal, in_terminal};
