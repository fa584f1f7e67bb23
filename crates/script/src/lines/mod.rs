//! Which line of a script starts what.
//!
//! | file | what it holds |
//! |---|---|
//! | `look` | the observer: what runs in each process, and who can tell its line |
//! | `memory` | words of a stopped process |
//! | `script_file` | the file that a shell names |
//! | `symbols` | where a program keeps what it knows of its script |
//! | `bash` | bash's line number and call stack, read from outside |
//! | `zsh` | zsh's, the same way |
//! | `perl` | Perl's line and call stack, read from outside |
//! | `make` | make's line, read from outside |
//! | `python` | the hook by which Python tells its line |
//! | `account` | a recording's processes, line by line |
//! | `processes` | the same as the tree of processes |
//! | `path` | the critical path: what the command's end waited for |
//! | `phases` | what a start's time went to |
//! | `shim` | programs that execute another in their place |
//! | `advice` | what to write instead, where only an edit of the script helps |

mod account;
pub mod advice;
mod bash;
mod look;
mod make;
mod memory;
mod path;
mod perl;
mod phases;
mod processes;
mod python;
mod script_file;
mod shim;
mod symbols;
mod zsh;

pub use account::{LineCaller, ScriptLine, ScriptLines, StartedProgram};
pub use look::LineFinder;
pub use phases::Phases;
pub use processes::{StartedProcess, processes};
pub use python::hook;
pub use shim::Shim;
