//! What a checked run did on a rehearsed filesystem.

use recording::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{counted, time};

/// A run on a rehearsed filesystem.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RehearsedRun {
    /// The profile's name.
    pub profile: String,
    /// Whether its server was cold.
    pub cold_server: bool,
    /// The directories that were on it.
    pub directories: Vec<String>,
    /// Metadata operations that reached its server.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
    /// How long at least one of them, or a transfer of data, was waited for.
    pub waiting_ns: Nanos,
    /// How long they were waited for, added up.
    pub waited_ns: Nanos,
    /// Of that, how long the server worked on others' operations.
    pub queued_ns: Nanos,
}

impl RehearsedRun {
    /// What it waited for, in one sentence; the run took `wall`.
    pub(super) fn sentence(&self, wall: Nanos) -> String {
        format!(
            "On a cold node of a rehearsed {} ({}): of {}, traced, it waited {} for the {} to \
             serve {}.",
            self.profile,
            self.directories.join(", "),
            time(wall),
            time(self.waiting_ns),
            if self.cold_server { "cold server" } else { "server" },
            counted(self.metadata_ops, "metadata operation", "metadata operations"),
        )
    }
}
