//! What a recorded start would cost many ranks: a projection.
//!
//! | file | what it holds |
//! |---|---|
//! | `place` | which of the recorded paths are on the shared filesystem |
//! | `evidence` | which component of a path was the missing one |
//! | `compute` | what the processes computed between their calls, without the recorder |
//! | `start` | what one rank does: computes, asks, reads, in order |
//! | `visits` | what of that reaches the server, once a node or once a rank |
//! | `crowd` | all ranks at once in the server's queue |
//! | `projection` | the answer |
//! | `words` | what it takes for granted |
//! | `table` | the answer as CSV |

mod compute;
mod crowd;
#[cfg(test)]
mod crowd_tests;
mod evidence;
mod place;
mod projection;
mod start;
mod table;
mod visits;
mod words;

pub use compute::Compute;
pub use place::Place;
pub use projection::{Asks, Knee, Point, Projection, project};
pub use start::{Start, StartError};
pub use table::csv;

/// How many ranks start at once, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Job {
    /// Ranks.
    pub ranks: u64,
    /// Ranks that share a node, and so what it keeps.
    pub ranks_per_node: u64,
}

impl Job {
    /// So many ranks, spread evenly over so many nodes.
    pub fn on_nodes(ranks: u64, nodes: u64) -> Job {
        Job { ranks, ranks_per_node: ranks.div_ceil(nodes.max(1)).max(1) }
    }

    /// Nodes.
    pub fn nodes(&self) -> u64 {
        self.ranks.div_ceil(self.ranks_per_node.max(1))
    }

    /// The same nodes with another number of ranks.
    pub fn with_ranks(&self, ranks: u64) -> Job {
        Job { ranks, ..*self }
    }
}
