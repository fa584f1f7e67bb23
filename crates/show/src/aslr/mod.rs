//! What `becalm aslr` answers, verb by verb.

mod analysis;
mod campaign;
mod scanned;

pub use analysis::AslrAnalysis;
pub use campaign::AslrCampaign;
pub use scanned::AslrScan;
