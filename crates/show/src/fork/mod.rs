//! What the fork storm's verbs print, a file a verb.

mod bench;
mod collapse;

pub use bench::ForkBench;
pub use collapse::ForkCollapse;
