//! Caches of modulepaths that can be trusted: `.modulecache` of Environment Modules 5.3 and
//! newer, and Lmod's `spiderT.lua`.
//!
//! | file | what it holds |
//! |---|---|
//! | `script` | a `.modulecache`, read as what it records and never evaluated |
//! | `held` | its file: opened without waiting, and whether it can be trusted |
//! | `fault` | what may be wrong with it |
//! | `readers` | who may read a file of the tree |
//! | `compare` | its entries beside the tree |
//! | `check` | all of that: is it good? |
//! | `build` | a new one by the site's own `cachebuild`, elsewhere, and its publication |
//! | `elsewhere` | how `cachebuild` is made to write elsewhere |
//! | `repair` | entries that disclose become ones that each user looks at |
//! | `view` | what users see with it and without |
//! | `load` | what it does to `module load` |
//! | `watch` | what tells that a tree has changed |
//! | `lmod` | Lmod's cache |

mod build;
mod check;
mod compare;
mod elsewhere;
mod fault;
mod held;
pub mod lmod;
mod load;
mod readers;
mod repair;
mod script;
mod view;
mod watch;

pub use build::{CacheBuildError, Occasion, PublishedCache, build};
pub use check::check;
pub use fault::{Checked, Fault, FaultCounts, FaultKind};
pub use load::note as load_note;
pub use script::{CacheCommand, CacheOddity, Says, Script, parse};
pub use view::{ViewDifference, users};
pub use watch::{Watch, WatchError, WatchMethod, is_remote_filesystem};

use crate::site::ModulesSite;

/// The name of a modulepath's cache (`getModuleCacheFilename`).
pub const NAME: &str = ".modulecache";

/// Whether this Modules reads caches: since 5.3.
pub fn reads_caches(site: &ModulesSite) -> bool {
    site.release.number() >= (5, 3)
}
