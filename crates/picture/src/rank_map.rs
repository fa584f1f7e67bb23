//! The ranks of a job, as a map of nodes and ranks.

use serde::Serialize;

/// Cells that a page draws: of more ranks, neighbours share one.
const MOST_CELLS: usize = 16_384;

/// One rank.
#[derive(Clone, Debug, Serialize)]
pub struct PicturedRank {
    /// Its number; of several in one cell, that of the slowest.
    pub rank: u32,
    /// Its node.
    pub node: String,
    /// Nanoseconds from its start to its end.
    pub took_ns: u64,
    /// Of those, in metadata operations.
    pub metadata_ns: u64,
    /// Metadata operations.
    pub ops: u64,
    /// Of those, failed lookups.
    pub failed: u64,
    /// How it ended, where that is to be told; empty: as it should.
    pub end: String,
}

/// The ranks of a job.
#[derive(Debug, Serialize)]
pub struct RankMap {
    headline: String,
    run: String,
    command: String,
    warnings: Vec<String>,
    /// How many ranks share a cell.
    together: usize,
    ranks: Vec<PicturedRank>,
}

impl RankMap {
    /// The map of these ranks, by number; `headline` says how they compare, `run` is the launcher's
    /// number for the job, `command` that of the first rank.
    pub fn of(
        headline: String,
        run: String,
        command: String,
        warnings: Vec<String>,
        ranks: Vec<PicturedRank>,
    ) -> RankMap {
        let together = ranks.len().div_ceil(MOST_CELLS).max(1);
        let slowest = |some: &[PicturedRank]| some.iter().max_by_key(|rank| rank.took_ns).cloned();
        // Neighbours of one node only.
        let nodes = ranks.chunk_by(|one, next| one.node == next.node);
        let cells = nodes.flat_map(|node| node.chunks(together)).filter_map(slowest).collect();
        RankMap { headline, run, command, warnings, together, ranks: cells }
    }
}
