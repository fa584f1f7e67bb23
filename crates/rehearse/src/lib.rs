#![doc = include_str!("../README.md")]
//!
//! | file | what it holds |
//! |---|---|
//! | `shared` | which directories of this machine a cluster would share |
//! | `fs` | the pass-through filesystem |
//! | `queue` | the server's one queue, shared by all clients of a machine |
//! | `ledger` | what reached the server |
//! | `clock` | waiting to the microsecond |
//! | `session` | a process that sees directories through the filesystem, in mounts of its own |
//! | `server`, `channel` | the process that serves them, and what the two tell each other |
//! | `traced` | a rehearsal without FUSE, by delays in the tracer |
//! | `report` | what is said of a run: by kind, directory and cause, and of a second one |
//! | `calibrate` | how well this machine keeps to a profile |
//! | `measure` | a filesystem that is there, measured, as a profile |
//! | `cold` | a warm node made cold |
//! | `directory` | which directories, and whether they can be rehearsed |

pub mod calibrate;
mod channel;
pub mod clock;
mod cold;
mod directory;
mod fs;
mod ledger;
pub mod measure;
mod queue;
pub mod report;
mod server;
mod session;
mod shared;
pub mod traced;

pub use cold::forget_caches;
pub use directory::{DirectoryError, RehearsalRoot};
pub use fs::{ServeError, ServedTree, serve};
pub use ledger::{Account, Ledger, Served, Sum};
pub use queue::{MachineQueue, MachineQueues, QueueError};
pub use server::ServerError;
pub use session::{Rehearsal, RehearsalError, RehearsalRequest, RehearsedDirectory};
pub use shared::shared_directories;
