//! Starts a command as it would start without becalm.
//!
//! Only this crate starts users' programs. It knows what a process inherits and what a Rust
//! program silently changes of that (SIGPIPE, closed standard descriptors), how a command is
//! looked up and executed (execvp(3)), and what its end looks like to whoever waits.
//!
//! | file | what it holds |
//! |---|---|
//! | `inherited` | signal dispositions and descriptors, as they were before Rust's runtime |
//! | `lookup` | which file a command's name means; why it cannot be executed |
//! | `spawn` | fork, a gate for a tracer, exec |
//! | `ended` | how a command ended, and ending in the same way |
//! | `timed` | a command run to its end, and the time it took |
//! | `line` | a command written as one line of text, split as a shell would |
//! | `stage` | a process in which a command has other surroundings and a time limit |
//! | `capture` | what it wrote, in bounded memory |
//! | `namespace` | mounts of one's own |
//! | `stop` | signals that ask becalm to end what it has started |

mod capture;
mod ended;
mod inherited;
mod line;
mod lookup;
pub mod namespace;
mod spawn;
mod stage;
mod stop;
mod timed;

pub use capture::Captured;
pub use ended::Ended;
pub use line::{Line, LineError};
pub use lookup::{CannotStart, Command};
pub use spawn::{Gated, fork, spawn};
pub use stage::{Played, Stage, StageError, check_input};
pub use timed::{Timed, timed};
