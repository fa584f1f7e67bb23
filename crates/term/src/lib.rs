#![doc = include_str!("../README.md")]
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
//! | `print` | the way out |
//! | `progress_bar` | a bar for work that takes over a second |

pub mod json;
pub mod number;
pub mod style;
pub mod width;

mod plain;
mod print;
mod progress_bar;
mod table;
mod xml;

pub use json::json;
pub use plain::{is_steering, plain, quoted, quoted_path, shell_line};
pub use print::{print, print_answer, print_beside, warn};
pub use progress_bar::ProgressBar;
pub use table::{Cell, Column, Table};
pub use xml::xml;
