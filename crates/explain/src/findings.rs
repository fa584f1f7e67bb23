//! Findings: what a recording means, as data. docs/schema/becalm.check.md describes the JSON.

use cost::PredictedWait;
use recording::{Cause, ExitStatus, Micros, Name, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::storm::{Storm, StormSource};
use crate::verdict::StartVerdict;
use crate::warnings::WarningKind;

/// What one run did on filesystems, which storms are in it, and what they cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Findings {
    /// The answer in a word.
    pub verdict: StartVerdict,
    /// What was counted, in one sentence.
    pub headline: String,
    /// The command, as it was given.
    pub command: Vec<Name>,
    /// What a person would call it: `emacs`, `unpack.sh`.
    pub program: String,
    /// All of the run, in numbers.
    pub totals: RunTotals,
    /// The storms, the longest predicted wait first. Empty: none.
    pub storms: Vec<Finding>,
    /// The metadata operations that belong to no storm, by cause, the longest predicted wait
    /// first.
    pub rest: Vec<CauseWait>,
    /// What it waits for the filesystem; none where the recording does not tell: the command changed
    /// its mounts, or nothing of it was where it was looked for.
    pub predicted_wait: Option<PredictedWait>,
    /// Seconds of it that one rank waits for `becalm run` itself: whether an image still holds.
    pub own_wait: f64,
    /// The same on other filesystems; none where the first was chosen.
    pub other_waits: Vec<OtherWait>,
    /// What page faults have of it, where they are no storm: as predicted, then on the other
    /// filesystems.
    #[serde(default)]
    pub page_faults: Vec<OtherWait>,
    /// How that is predicted.
    pub model: WaitModel,
    /// From when on it is a storm.
    pub threshold: Threshold,
    /// What the reader must know before believing the numbers.
    pub warnings: Vec<RunWarning>,
    /// The directory that, named as shared, has most of what is left out now.
    pub left_out: Option<Name>,
    /// The command that shows the evidence where there is no storm.
    pub evidence: String,
}

/// All of a run, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Of the operations, those that the node answers: an image, or the kernel from its own memory
    /// (proc, sysfs, tmpfs…). They are counted above, and never in a cost.
    pub in_memory: u64,
    /// Processes, the command's first one included.
    pub processes: u64,
    /// Processes forked a second, over the whole run.
    pub processes_per_second: f64,
    /// From the start of the recording to its end, in nanoseconds, as traced.
    pub wall_ns: Nanos,
    /// CPU of all processes that ended, user and system, in microseconds.
    pub cpu_us: Micros,
    /// How the command ended; none if it was not seen to.
    pub status: Option<ExitStatus>,
}

/// One storm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Of those, how many a known cure would take away at most.
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
    /// Their part of the predicted wait.
    pub predicted_wait: PredictedWait,
    /// The same on other filesystems.
    pub other_waits: Vec<OtherWait>,
    /// Seconds of it that a known cure would take away at most, for one rank: what makes it a storm.
    pub avoidable_wait: f64,
    /// The command that shows the evidence.
    pub evidence: String,
}

/// How many metadata operations one cause has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseCount {
    /// The cause.
    pub cause: Cause,
    /// Metadata operations.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
}

/// The same with their part of the predicted wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseWait {
    /// How many.
    #[serde(flatten)]
    pub count: CauseCount,
    /// Seconds that one rank waits for them.
    pub predicted_wait: f64,
}

/// A wait on another filesystem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OtherWait {
    /// Its profile's name.
    pub profile: String,
    /// What a start, or its part, waits there.
    #[serde(flatten)]
    pub wait: PredictedWait,
}

/// How a wait is predicted: the filesystem, and who starts on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitModel {
    /// The profile's name.
    pub profile: String,
    /// Seconds of one RPC where nobody else waits.
    pub metadata_latency: f64,
    /// Metadata operations a second that the server serves; none if it takes no time.
    pub mds_ops_per_second: Option<u64>,
    /// Whether a client caches ENOENT.
    pub negative_dentry_cache: bool,
    /// Ranks that start at once.
    pub ranks: u64,
    /// Ranks that share a node, and its cache.
    pub ranks_per_node: u64,
    /// Nodes: `ranks / ranks_per_node`, rounded up.
    pub nodes: u64,
    /// Whether each node has had such a start before.
    pub warm: bool,
    /// Whether the server has yet to read from its disk what it is asked for.
    pub cold_server: bool,
    /// How it is known what is read.
    pub data_reads: cost::ReadsKnown,
    /// What is taken for granted, in words.
    pub assumptions: Vec<String>,
}

/// From when on it is a storm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Threshold {
    /// Seconds of avoidable wait of one rank, at least.
    pub avoidable_wait: f64,
    /// And this part of the start's wait…
    pub share: f64,
    /// …or this many seconds, whatever their share.
    pub always: f64,
    /// Execs of the same program by the same parent that make a fork storm.
    pub execs: u64,
    /// The same in words.
    pub words: String,
}

/// What the reader must know before believing the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunWarning {
    /// Which.
    pub kind: WarningKind,
    /// What it means, in one sentence.
    pub text: String,
}
