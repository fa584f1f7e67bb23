//! What the end-to-end tests share.
#![allow(dead_code, unused_imports)] // Each test program uses a part of it.
#![allow(clippy::unwrap_used)]

pub mod both;
pub mod bound;
pub mod imaged;
pub mod live;
pub mod ranked;
pub mod rehearsal;
pub mod scene;
pub mod seen;
pub mod staged;
pub mod strace;
pub mod terminal;
pub mod trap;
pub mod user;

pub use both::{assert_same, both};
pub use live::{Live, Ran, run};
pub use scene::Scene;
pub use trap::{trap, trap_with};
