//! What `becalm modules …` answers, one file a verb.

mod audit;
mod cache;
mod tidy;

pub use audit::ModulesAudit;
pub use cache::{CacheAnswer, ModulesCache};
pub use tidy::ModulesTidy;
