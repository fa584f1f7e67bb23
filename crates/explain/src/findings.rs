//! Findings: what a recording means, as data. docs/schema/becalm.check.md describes the JSON.

use std::collections::BTreeMap;

use cost::PredictedWait;
use recording::{Cause, Micros, Name, Nanos, Status};
use serde::{Deserialize, Serialize};

/// What one run asked of the filesystem, which storms are in it, and what they cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// The sentence that answers the question.
    pub headline: String,
    /// The command, as it was given.
    pub command: Vec<Name>,
    /// What a person would call it: `emacs`, `unpack.sh`.
    pub program: String,
    /// All of the run, in numbers.
    pub totals: Totals,
    /// The storms, the longest predicted wait first. Empty: none.
    pub storms: Vec<Finding>,
    /// The metadata operations that belong to no storm, by cause, the longest predicted wait
    /// first.
    pub rest: Vec<CauseCount>,
    /// What it waits for the filesystem.
    pub predicted_wait: PredictedWait,
    /// How that is predicted.
    pub model: WaitModel,
    /// From when on it is a storm.
    pub threshold: Threshold,
    /// What the reader must know before believing the numbers.
    pub warnings: Vec<Warning>,
}

/// All of a run, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Metadata operations: path lookups and directory listings, what a metadata server would
    /// be asked.
    pub operations: u64,
    /// Of those, answered 'no such file' (ENOENT, ENOTDIR).
    pub missing: u64,
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
    /// How it was seen, and what of it is a guess.
    pub observed: String,
    /// Metadata operations. An operation belongs to one storm only.
    pub operations: u64,
    /// Of those, answered 'no such file'.
    pub missing: u64,
    /// Distinct paths they named.
    pub distinct: u64,
    /// Of those, how many a known cure would take away at most.
    pub avoidable: u64,
    /// Of those, how many are here because of their path, which is a guess.
    pub guessed: u64,
    /// `operations` divided by all metadata operations of the run.
    pub share: f64,
    /// Time in these calls, in nanoseconds, the recorder's own stops included; of a fork storm,
    /// how long its processes lived, summed.
    pub time_ns: Nanos,
    /// The operations by cause, most first.
    pub causes: Vec<CauseCount>,
    /// Who or what is to blame, the worst first, with the numbers that say so.
    pub culprits: Vec<Culprit>,
    /// Their part of the predicted wait.
    pub predicted_wait: PredictedWait,
    /// Seconds of it that a known cure would take away at most, for one rank: what makes it a storm.
    pub avoidable_wait: f64,
    /// What to do about it, the best first.
    pub next: Vec<Step>,
    /// The command that shows the evidence.
    pub evidence: String,
}

/// The storms that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Storm {
    /// Libraries searched at program start.
    Loader,
    /// Libraries searched by a running program.
    Dlopen,
    /// Python modules searched over `sys.path`.
    Python,
    /// Environment Modules or Lmod walking a modulepath.
    Modules,
    /// The same program started over and over.
    Fork,
    /// Locales, message catalogues, character set converters.
    Locale,
    /// Programs searched over PATH.
    Path,
    /// The same path asked for again and again.
    Repeat,
    /// Directories listed by the hundred.
    Walk,
}

impl Storm {
    /// The name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Storm::Loader => "loader search",
            Storm::Dlopen => "dlopen search",
            Storm::Python => "python import",
            Storm::Modules => "module tool",
            Storm::Fork => "fork storm",
            Storm::Locale => "locale/gconv",
            Storm::Path => "PATH search",
            Storm::Repeat => "repeated stat",
            Storm::Walk => "directory walk",
        }
    }
}

/// How many metadata operations one cause has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CauseCount {
    /// The cause.
    pub cause: Cause,
    /// Metadata operations.
    pub operations: u64,
    /// Of those, answered 'no such file'.
    pub missing: u64,
    /// Seconds that one rank waits for them.
    pub predicted_wait: f64,
}

/// Someone or something to blame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// What it is: `rpath`, `library`, `sys.path`, `program`, `path`…
    pub kind: String,
    /// Its name: a path, a program, a variable, as [`recording::shown`] writes it.
    pub name: String,
    /// What it did, as a person would say it, its numbers included.
    pub text: String,
    /// The numbers alone, by name.
    pub numbers: BTreeMap<String, u64>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What, and what to expect of it.
    pub text: String,
    /// The command to paste, if there is one.
    pub command: Option<String>,
}

/// How a wait is predicted: the filesystem, and who starts on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// What is taken for granted, in words.
    pub assumptions: Vec<String>,
}

/// From when on it is a storm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// Seconds of avoidable wait of one rank, at least.
    pub avoidable_wait: f64,
    /// And this part of the start's wait…
    pub share: f64,
    /// …or this many seconds, whatever their share.
    pub always: f64,
    /// Execs of the same program by the same parent that make a fork storm.
    pub starts: u64,
    /// The same in words.
    pub words: String,
}

/// What the reader must know before believing the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Which: `cut`, `running`, `io_uring`, `setuid`, `tracer_refused`, `own_filter`,
    /// `outer_filter`, `unreadable`, `other_root`, `mounts_changed`, `failed`.
    pub kind: String,
    /// What it means, in one sentence.
    pub text: String,
}
