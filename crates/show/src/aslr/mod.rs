//! What `becalm aslr` answers, verb by verb.

mod analysis;

pub use analysis::AslrAnalysis;
