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

mod ended;
mod inherited;
mod lookup;
mod spawn;

pub use ended::Ended;
pub use lookup::{CannotStart, Command};
pub use spawn::{Gated, fork, spawn};
