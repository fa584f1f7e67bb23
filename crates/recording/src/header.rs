//! Where and when a recording was made.

use std::ffi::OsString;

use crate::{Mount, Name, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The first block of a recording: everything that is known before the command runs.
///
/// It is stored as JSON, so that later versions can add fields that older ones skip.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// The becalm that recorded, e.g. `0.1.0`.
    pub becalm: String,
    /// `uname -n`.
    pub host: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// Seconds since 1970 at the recording's start.
    pub started_unix: u64,
    /// Nanoseconds beside `started_unix`.
    #[serde(default)]
    pub started_nanos: u32,
    /// The command as given, lossily decoded.
    pub argv: Vec<String>,
    /// The same exactly, where the decoded words do not tell it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exact_argv: Vec<Name>,
    /// The working directory it was started in, lossily decoded.
    pub cwd: String,
    /// Effective user id.
    pub uid: u32,
    /// Whether every system call was recorded, or `%file,%desc,%process` only.
    pub all_syscalls: bool,
    /// Whether only what starts processes was recorded, and no other calls on files.
    #[serde(default)]
    pub starts_only: bool,
    /// Whether page faults on mapped files were watched, so that a file without a touch was not
    /// touched (nor larger than the recorder looks at: docs/storms/data.md).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub page_faults: bool,
    /// Whether calls on open descriptors (reads, writes, closes) were not watched: what was read is
    /// then known only as far as [`crate::UnwatchedReads`] says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub metadata_only: bool,
    /// How calls were seen: `ptrace`, `ptrace+seccomp` or `ptrace+seccomp+ebpf`.
    pub backend: String,
    /// The mounts of the recorder's namespace.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Which rank of a parallel job the command was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<crate::Rank>,
    /// There if the command ran already when the recording began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedRun>,
}

/// What ran already when its recording began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinedRun {
    /// The processes that were asked for; all below them are recorded, too.
    pub pids: Vec<u32>,
    /// How long the oldest of them had run by then, in nanoseconds.
    pub age: Nanos,
}

impl Header {
    /// Takes in the command.
    pub fn set_command(&mut self, argv: &[OsString]) {
        self.argv = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        self.exact_argv = match self.argv.iter().any(|word| word.contains('\u{fffd}')) {
            true => argv.iter().map(Name::of).collect(),
            false => Vec::new(),
        };
    }

    /// The words of the command.
    pub fn command(&self) -> Vec<Name> {
        match self.exact_argv.is_empty() {
            true => self.argv.iter().map(Name::of).collect(),
            false => self.exact_argv.clone(),
        }
    }

    /// The command to be pasted into a shell; none where an older becalm did not keep it exactly.
    pub fn command_line(&self) -> Option<String> {
        let words = self.command();
        let is_lost = |word: &String| word.contains('\u{fffd}');
        if words.is_empty() || (self.exact_argv.is_empty() && self.argv.iter().any(is_lost)) {
            return None;
        }
        Some(term::shell_line(&words))
    }
}

/// Whether `path` is `directory` or below it, by whole components.
pub(crate) fn is_below(path: &[u8], directory: &[u8]) -> bool {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}
