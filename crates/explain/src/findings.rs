//! Findings: what a recording means, as data. docs/schema/becalm.check.md describes the JSON.

use recording::{Cause, Micros, Name, Nanos, Status};
use serde::{Deserialize, Serialize};

use crate::storm::{Storm, StormSource};
use crate::warnings::WarningKind;

/// What one run did on filesystems, which storms are in it, and what they cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// The answer in one sentence.
    pub headline: String,
    /// The command, as it was given.
    pub command: Vec<Name>,
    /// What a person would call it: `emacs`, `unpack.sh`.
    pub program: String,
    /// All of the run, in numbers.
    pub totals: RunTotals,
    /// The storms, most metadata operations first. Empty: none.
    pub storms: Vec<Finding>,
    /// The metadata operations that belong to no storm, by cause, most first.
    pub rest: Vec<CauseCount>,
    /// What all metadata operations cost on a cold shared filesystem.
    pub cost: Cost,
    /// How costs are computed.
    pub model: Model,
    /// From when on it is a storm.
    pub threshold: Threshold,
    /// What the reader must know before believing the numbers.
    pub warnings: Vec<RunWarning>,
}

/// All of a run, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunTotals {
    /// Metadata operations: path lookups and directory listings, what a metadata server would
    /// serve.
    pub metadata_ops: u64,
    /// Of those, failed lookups: they ended with ENOENT or ENOTDIR.
    pub enoent: u64,
    /// Of those, failed otherwise (EACCES, ELOOP…).
    pub refused: u64,
    /// Distinct paths they named.
    pub distinct: u64,
    /// Of the operations, those on filesystems that the kernel serves from its own memory
    /// (proc, sysfs, tmpfs…). They are counted above, and never in a cost.
    pub in_memory: u64,
    /// Processes, the command's first one included.
    pub processes: u64,
    /// Processes started a second, over the whole run.
    pub processes_per_second: f64,
    /// From the start of the recording to its end, in nanoseconds, as traced.
    pub wall_ns: Nanos,
    /// CPU of all processes that ended, user and system, in microseconds.
    pub cpu_us: Micros,
    /// How the command ended; none if it was not seen to.
    pub status: Option<Status>,
}

/// One storm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which.
    pub storm: Storm,
    /// What happened, as a person would say it.
    pub title: String,
    /// Why it happens.
    pub cause: String,
    /// How it was seen, and what of it is inferred.
    pub observed: String,
    /// Metadata operations. An operation belongs to one storm only.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
    /// Distinct paths they named.
    pub distinct: u64,
    /// Of those, how many a known cure would take away at most: what makes it a storm.
    pub avoidable: u64,
    /// Of those, how many are here because of their path alone, and not of who made them.
    pub inferred: u64,
    /// `metadata_ops` divided by all metadata operations of the run.
    pub share: f64,
    /// Time in these calls, in nanoseconds, the recorder's own stops included; of a fork storm,
    /// how long its processes lived, summed.
    pub time_ns: Nanos,
    /// The metadata operations by cause, most first.
    pub causes: Vec<CauseCount>,
    /// What causes them, the worst first, with the numbers that say so.
    pub sources: Vec<StormSource>,
    /// What these operations cost on a cold shared filesystem.
    pub cost: Cost,
    /// The command that shows the evidence.
    pub evidence: String,
}

/// How many metadata operations one cause has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseCount {
    /// The cause.
    pub cause: Cause,
    /// Metadata operations.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
}

/// What operations cost on a cold shared filesystem, by [`Model`]. Seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Questions that one cold node asks the server, where it keeps every answer.
    pub questions: u64,
    /// The same where it keeps no 'no'.
    pub questions_unkept: u64,
    /// One process on one cold node waits this long.
    pub one_rank: f64,
    /// The same where 'no' is not kept.
    pub one_rank_unkept: f64,
    /// All ranks, started at once on cold nodes, wait this long.
    pub all_ranks: f64,
    /// The same where 'no' is not kept.
    pub all_ranks_unkept: f64,
}

/// How a [`Cost`] is computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Ranks that start at once.
    pub ranks: u64,
    /// Ranks that share a node, and its cache.
    pub ranks_per_node: u64,
    /// Nodes: `ranks / ranks_per_node`, rounded up.
    pub nodes: u64,
    /// Seconds from a client's question to the server's answer, when the server is idle.
    pub seconds_a_question: f64,
    /// Questions a second that the one server answers.
    pub server_per_second: f64,
    /// The same in words.
    pub words: String,
}

/// From when on it is a storm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// Avoidable operations, at least.
    pub avoidable: u64,
    /// And this part of all operations…
    pub share: f64,
    /// …or this many avoidable ones, whatever their share.
    pub always: u64,
    /// Starts of the same program by the same parent that make a fork storm.
    pub starts: u64,
    /// The same in words.
    pub words: String,
}

/// What the reader must know before believing the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunWarning {
    /// Which.
    pub kind: WarningKind,
    /// What it means, in one sentence.
    pub text: String,
}
