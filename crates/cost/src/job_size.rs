//! How many ranks start at once, and on how many nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many ranks start at once, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobSize {
    /// Ranks.
    pub ranks: u64,
    /// Ranks that share a node, and so its cache.
    pub ranks_per_node: u64,
}

impl JobSize {
    /// One rank on a node of its own.
    pub const ONE: JobSize = JobSize { ranks: 1, ranks_per_node: 1 };

    /// So many ranks, spread evenly over so many nodes.
    pub fn on_nodes(ranks: u64, nodes: u64) -> JobSize {
        JobSize { ranks, ranks_per_node: ranks.div_ceil(nodes.max(1)).max(1) }
    }

    /// Nodes.
    pub fn nodes(&self) -> u64 {
        self.ranks.div_ceil(self.ranks_per_node.max(1))
    }

    /// As many ranks on a node, with another number of ranks.
    pub fn with_ranks(&self, ranks: u64) -> JobSize {
        JobSize { ranks, ..*self }
    }
}

impl Default for JobSize {
    /// What is taken where nothing is said: 1,000 ranks, 64 on a node.
    fn default() -> JobSize {
        JobSize { ranks: 1000, ranks_per_node: 64 }
    }
}
