#![doc = include_str!("../README.md")]
//!
//! | file | what it holds |
//! |---|---|
//! | `namespace` | mounts of one's own |
//! | `groups` | which groups can be shown and given to files there |
//! | `mounts` | what is mounted there: binds, overlays, devices, a new root |
//! | `loopback` | a file as a block device |
//! | `join` | the namespaces of a process that lives already |
//! | `rights` | descriptors sent over a socket |

pub mod groups;
pub mod join;
mod loopback;
pub mod mounts;
pub mod namespace;
pub mod rights;

pub use loopback::Loopback;
