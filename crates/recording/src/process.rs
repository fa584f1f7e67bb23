//! One process of a recording.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ByteUnits, Micros, Name, Nanos, Origin, PathId};

/// A process of a recording: its place in the order of their starts. Unlike a pid it is never
/// used twice.
#[derive(
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct ProcessId(pub u32);

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its place in the recording.
    pub id: ProcessId,
    /// The kernel's number for it, in the recorder's pid namespace.
    pub pid: u32,
    /// Who started it; none for the command itself.
    pub parent: Option<ProcessId>,
    /// By which call.
    pub how: StartCall,
    /// When.
    pub started: Nanos,
    /// Every program it became, in order. A forked child that never execs has none, and runs
    /// its parent's program.
    pub execs: Vec<Exec>,
    /// How it ended; none if it still ran when the recording stopped.
    pub end: Option<ProcessEnd>,
    /// Threads beside the first.
    pub threads: u32,
    /// Where in its parent's script it was started, if the recorder looked.
    pub origin: Option<Origin>,
}

/// The call that started a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartCall {
    /// becalm started it.
    Command,
    /// fork, or a clone that copies the memory.
    Fork,
    /// vfork, or a clone that shares the memory until exec (posix_spawn).
    Vfork,
    /// Another clone.
    Clone,
    /// None that was seen: it ran already when becalm joined it.
    Joined,
}

/// One successful exec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// When the new program took over.
    pub at: Nanos,
    /// What was executed, as an absolute path: a script, for a script.
    pub path: PathId,
    /// The file that runs: the interpreter, for a script (`/proc/PID/exe`).
    pub image: PathId,
    /// The arguments, lossily decoded; cut after 32 KiB.
    pub argv: Vec<String>,
    /// The same exactly, where the decoded words do not tell it: a record of its own.
    #[serde(skip)]
    pub exact_argv: Vec<Name>,
    /// The working directory.
    pub cwd: PathId,
    /// The dynamic loader (`PT_INTERP`), if any.
    pub loader: Option<PathId>,
    /// Environment variables that steer searches (PATH, LD_*, PYTHON*, MODULEPATH, LC_*, and
    /// [`SEARCH_VARIABLES`](crate::SEARCH_VARIABLES)).
    pub env: Vec<(String, String)>,
}

impl Exec {
    /// A program that is no script, executed at the recording's start; no arguments, environment or
    /// loader are known of it.
    pub fn new(path: PathId, cwd: PathId) -> Exec {
        Exec {
            at: Nanos(0),
            path,
            image: path,
            argv: Vec::new(),
            exact_argv: Vec::new(),
            cwd,
            loader: None,
            env: Vec::new(),
        }
    }

    /// The arguments, byte for byte, but of a recording by an older becalm.
    pub fn words(&self) -> Vec<Name> {
        match self.exact_argv.is_empty() {
            true => self.argv.iter().map(Name::of).collect(),
            false => self.exact_argv.clone(),
        }
    }
}

/// How a process ended and what it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// When.
    pub at: Nanos,
    /// How.
    pub status: ExitStatus,
    /// What it used itself, its children not included.
    pub usage: Usage,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// exit(code).
    Exited(u8),
    /// Killed by this signal.
    Signaled(u8),
}

impl ExitStatus {
    /// How the process failed, as the end of a sentence about it; none where it did not.
    pub fn failure(self) -> Option<String> {
        match self {
            ExitStatus::Exited(0) => None,
            ExitStatus::Exited(code) => Some(format!("ended with status {code}")),
            ExitStatus::Signaled(signal) => Some(format!("was killed by signal {signal}")),
        }
    }
}

/// A signal that was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// To which process.
    pub process: ProcessId,
    /// To which of its threads.
    pub thread: u32,
    /// Its number.
    pub signal: u8,
    /// When.
    pub at: Nanos,
}

/// What a process used, from `wait4` with its reaped children taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU in the program.
    pub user: Micros,
    /// CPU in the kernel.
    pub system: Micros,
    /// Largest resident set.
    pub max_rss: ByteUnits,
}

/// What an ELF file that was mapped says of its own search: read once, after the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MappedElf {
    /// DT_SONAME.
    pub soname: Option<String>,
    /// DT_NEEDED, in order.
    pub needed: Vec<String>,
    /// DT_RPATH, split at colons. The loader ignores it where there is a RUNPATH.
    pub rpath: Vec<String>,
    /// DT_RUNPATH, split at colons.
    pub runpath: Vec<String>,
    /// PT_INTERP.
    pub interpreter: Option<String>,
}

impl Exec {
    /// Whether it is `becalm run`, which prepares what another program then runs in.
    pub fn is_becalm_run(&self) -> bool {
        let is_becalm = |word: &String| word.rsplit('/').next() == Some("becalm");
        self.argv.first().is_some_and(is_becalm) && self.argv.get(1).is_some_and(|it| it == "run")
    }
}
