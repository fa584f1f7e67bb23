#![doc = include_str!("../README.md")]
//!
//! | file | what it holds |
//! |---|---|
//! | `everyone` | whether everyone may |
//! | `keep` | a file written anew: who might use the one before, and nobody else |
//! | `list` | access control lists |
//! | `without_list` | permissions where the list is not kept |

mod everyone;
mod keep;
mod list;
mod without_list;

pub use everyone::{everyone_may, list_lets_everyone, mode_lets_everyone};
pub use keep::{keep_access, keep_directory_access};
pub use list::{AclEntry, POSIX, POSIX_DEFAULT, has_list, posix_acl};
pub use without_list::mode_without_list;
