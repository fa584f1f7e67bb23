//! The part of Tcl that rc files are written in when nothing in them depends on who reads them,
//! and no more. Nothing is evaluated.
//!
//! | file | what it holds |
//! |---|---|
//! | `words` | a script of literal words, after Tcl's rules of quoting |
//! | `list` | Tcl lists: split, and put together so that Tcl reads the same words |
//! | `dictionary` | the order of `lsort -dictionary` |
//! | `rc` | an rc file as what it defines |

mod dictionary;
mod list;
pub mod rc;
mod words;

pub use dictionary::dictionary;
pub use list::{ListError, element, join, split};
pub use words::{DynamicReason, DynamicWord, TclCommand, commands};
