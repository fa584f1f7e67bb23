//! What the calls of one `module` command are for: the real command, recorded, its calls sorted by
//! cause.
//!
//! | file | what it holds |
//! |---|---|
//! | `subcommand` | the words of the command line, and what may be run only to look at it |
//! | `purpose` | what a call is for, as a person would say it |
//! | `sort` | a recording's calls, by purpose |

mod purpose;
mod sort;
mod subcommand;

use std::ffi::OsString;
use std::path::PathBuf;

use launch::{Command, Ended, Stage};
use recording::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::audit::Timeout;
use crate::captured::captured;
use crate::recorded::recorded;
use crate::site::{ModulesSite, User};

pub use purpose::CallPurpose;
pub use subcommand::{NotExplained, Subcommand, SubcommandWork};

/// What a command's calls were for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedCommand {
    /// All its system calls on files, descriptors and processes.
    pub calls: u64,
    /// By what they are for, in the order in which a command comes to it.
    pub purposes: Vec<PurposeCalls>,
    /// How it ended.
    pub ended: Ended,
    /// What it said on standard error, its first line that is an error or a warning.
    pub complaint: Option<String>,
}

/// The calls of one purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PurposeCalls {
    /// Which.
    pub purpose: CallPurpose,
    /// System calls.
    pub calls: u64,
    /// Those of them that a metadata server would serve.
    pub metadata_ops: u64,
    /// On how many files and directories.
    pub paths: u64,
    /// One of them.
    pub example: Option<Name>,
}

/// Runs `module WORDS…` once under the recorder, as a user or as the caller, in this environment,
/// and says what its calls were for. What it writes goes nowhere.
///
/// This forks: call it while the process has one thread.
///
/// # Errors
/// Why not, in words.
pub fn explain(
    words: &[String],
    subcommand: &Subcommand,
    site: &ModulesSite,
    modulepaths: &[PathBuf],
    user: Option<&User>,
    timeout: Timeout,
) -> Result<ExplainedCommand, String> {
    let command = Command::of(site.argv("bash", words));
    let stage = stage(user.is_some(), timeout);
    let act = || {
        let (streams, (recording, ended)) = captured(|| recorded(&command))?;
        let [stdout, stderr] = streams;
        let surroundings = sort::CommandSurroundings {
            site,
            modulepaths,
            work: subcommand.work,
            said: format!("{stdout}{stderr}"),
            loaded: std::env::var("_LMFILES_").unwrap_or_default(),
        };
        let purposes = sort::purposes(&recording, &surroundings);
        let calls = purposes.iter().map(|sum| sum.calls).sum();
        let complaint = stderr.lines().find(|line| is_complaint(line)).map(str::to_owned);
        Ok(ExplainedCommand { calls, purposes, ended, complaint })
    };
    match user {
        Some(user) => user.play(&stage, act).map_err(|error| error.to_string())?,
        None => stage.play(act).map_err(|error| error.to_string())?.result,
    }
}

fn is_complaint(line: &str) -> bool {
    ["ERROR: ", "WARNING: "].iter().any(|word| line.trim_start().starts_with(word))
}

fn stage(as_another: bool, timeout: Timeout) -> Stage {
    let mut stage = Stage { timeout: Some(timeout.0), ..Stage::new() };
    let mut set = |name: &str, value: OsString| stage.environment.push((name.into(), value));
    set("MODULES_PAGER", OsString::new());
    if as_another {
        // What the caller has loaded, and the caller's own rc file, is not another's.
        for name in ["LOADEDMODULES", "_LMFILES_"] {
            set(name, OsString::new());
        }
        set("HOME", "/".into());
    }
    stage
}
