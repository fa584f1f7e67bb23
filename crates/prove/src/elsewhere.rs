//! Other surroundings for runs, such as a rehearsed filesystem.

use recording::{ByteUnits, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where runs are made, if not simply on this machine.
///
/// Each run, recorded or timed, has a process of its own ([`launch::Stage`]), which enters before
/// it starts the command.
pub trait RunSurroundings {
    /// In words, for the verdict's `on …`.
    fn words(&self) -> String;

    /// Brings the calling process there. It has one thread.
    ///
    /// # Errors
    /// Why not.
    fn enter(&self) -> Result<Box<dyn SurroundingsStay>, String>;
}

/// A run's stay there.
pub trait SurroundingsStay {
    /// What reached the server; called once the command has ended.
    ///
    /// # Errors
    /// Why it is not known: then the run says nothing.
    fn leave(self: Box<Self>) -> Result<ServerCounts, String>;
}

/// What of a run reached a shared filesystem's server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCounts {
    /// Metadata RPCs.
    pub rpcs: u64,
    /// Of those, how many ended with ENOENT.
    pub enoent: u64,
    /// How long their callers waited, summed over all of them.
    pub waited_ns: Nanos,
    /// Of that, how long the server worked on others' operations.
    pub queued_ns: Nanos,
    /// Data that was read or written.
    pub bytes: ByteUnits,
}
