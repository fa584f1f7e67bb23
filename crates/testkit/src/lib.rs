//! What tests share: scenes, commands that never hang, strace's answers, users, terminals.

#![allow(clippy::unwrap_used, clippy::new_without_default)] // What fails, fails the test.

pub mod answer;
pub mod apptainer;
pub mod arch;
pub mod both;
pub mod bound;
pub mod drawn;
pub mod imaged;
pub mod installed;
pub mod live;
pub mod made;
pub mod memory;
mod programs;
pub mod ranked;
pub mod rehearsal;
pub mod scene;
pub mod seen;
pub mod staged;
pub mod strace;
pub mod terminal;
pub mod trap;
pub mod uncached;
pub mod user;

pub use both::both;
pub use live::{Live, Ran, run};
pub use programs::{copy_program, write_program};
pub use scene::{Backend, Scene};
pub use stats::Random;
pub use trap::{trap, trap_with};
pub use uncached::uncached;
