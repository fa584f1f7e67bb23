//! What `becalm aslr` answers, verb by verb.

mod analysis;
mod campaign;
mod scanned;
mod verified;

pub use analysis::AslrAnalysis;
pub use campaign::AslrCampaign;
pub use scanned::AslrScan;
pub use verified::AslrVerified;
