//! What `becalm aslr` answers, verb by verb.

mod analysis;
mod scanned;
mod verified;

pub use analysis::AslrAnalysis;
pub use scanned::AslrScan;
pub use verified::AslrVerified;
