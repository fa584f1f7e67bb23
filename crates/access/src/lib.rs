#![doc = include_str!("../README.md")]
//!
//! | file | what it holds |
//! |---|---|
//! | `everyone` | whether everyone may |
//! | `keep` | a file written anew: who might use the one before, and nobody else |
//! | `list` | access control lists |
//! | `own` | whether what lies at a path is this user's own |
//! | `unmapped` | users that have no number in this user namespace |
//! | `without_list` | permissions where the list is not kept |

mod everyone;
mod keep;
mod list;
mod own;
mod unmapped;
mod without_list;

pub use everyone::{everyone_may, list_lets_everyone, mode_lets_everyone};
pub use keep::{keep_access, keep_directory_access};
pub use list::{AclEntry, POSIX, POSIX_DEFAULT, has_list, posix_acl};
pub use own::{ForeignPath, ForeignReason, OwnDirectory, keeps_names};
pub use without_list::mode_without_list;
