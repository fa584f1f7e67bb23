//! A slow shared filesystem, rehearsed on one machine and projected to many ranks.
//!
//! | file | what it holds |
//! |---|---|
//! | `shared` | which folders of this machine a cluster would share |
//! | `profile` | what a shared filesystem is like, as data (`profiles/*.toml`) |

mod profile;
mod shared;

pub use profile::{Ask, Cache, Data, Metadata, Profile, ProfileError, Rate, Span};
pub use shared::shared_folders;
