//! What `becalm modules …` answers, one file a verb.

mod audit;
mod cache;
mod hook;
mod index;
mod tidy;

pub use audit::ModulesAudit;
pub use cache::{CacheAnswer, ModulesCache};
pub use hook::ModulesHook;
pub use index::{IndexAnswer, ModulesIndex};
pub use tidy::ModulesTidy;
