#![doc = include_str!("../README.md")]
//!
//! A scan sees a recording only. With the marks of the [`Hook`] in it, which import an operation
//! belongs to was observed; without, files name their modules, and the answer says so.
//!
//! | file | what it holds |
//! |---|---|
//! | `hook`, `hook.py` | makes Python say where each import begins and ends |
//! | `runs` | which run of which program a call belongs to |
//! | `ask` | the metadata operations of Python's runs |
//! | `attribute`, `tree` | which import it belongs to; imports below imports |
//! | `entry` | the entries of `sys.path`, and what one more costs |
//! | `trouble` | what is out of the ordinary, by name |
//! | `importtime` | what `python -X importtime` prints |
//! | `scan` | all of it as a value; `count` makes it |

mod ask;
mod attribute;
mod count;
mod entry;
mod hook;
pub mod importtime;
mod runs;
mod scan;
mod tree;
mod trouble;

pub use count::scan;
pub use hook::{Hook, Marks};
pub use recording::module_search::LookupReason;
pub use scan::{
    ByReason, Import, ImportCounts, ImportScan, Nesting, PackageImports, Python, ScannedPathEntry,
    Slope, Time,
};
pub use trouble::{PythonTrouble, PythonTroubleKind};
