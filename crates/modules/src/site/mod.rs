//! Which Modules a site has, where, and how it is configured: read from its own files and from
//! the environment, without running it.
//!
//! | file | what it holds |
//! |---|---|
//! | `environment` | variables, as a value |
//! | `release` | versions of Modules |
//! | `found` | `modulecmd.tcl`: where it is, and what it says of itself |
//! | `setting` | its configuration options, and where each value comes from |
//! | `modulepath` | `$MODULEPATH` |
//! | `user` | a tree as another user sees it |

mod environment;
mod found;
mod modulepath;
mod release;
mod setting;
mod user;

pub use environment::Environment;
pub use found::{EXTENSION, ModulesSite, SiteError, SiteScript};
pub use modulepath::{ModulepathOddity, modulepath};
pub use release::Release;
pub use setting::{ModulesSetting, SettingSource};
pub use user::{User, UserError};
