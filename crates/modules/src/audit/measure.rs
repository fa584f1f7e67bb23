//! How many system calls the real command makes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use launch::{Command, Ended, Stage};
use recording::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ModuleCommand, TreeCalls};
use crate::recorded::recorded;
use crate::site::{ModulesSite, User};

/// What a command did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Its calls on the trees.
    pub calls: TreeCalls,
    /// All its calls on files and descriptors.
    pub everywhere: u64,
    /// How long it took without a recorder, in milliseconds: the median of three.
    pub milliseconds: f64,
    /// How it ended.
    pub ended: Ended,
}

/// After how long a command is ended.
#[derive(Clone, Copy, Debug)]
pub struct Timeout(pub Duration);

/// Runs `module avail` (or whatis, or load) on these modulepaths, as a user or as the caller:
/// once recorded, three times for the time. No module is loaded in its environment, and its
/// output goes nowhere.
///
/// This forks: call it while the process has one thread.
///
/// # Errors
/// Why not, in words.
pub fn measure(
    ask: &ModuleCommand,
    modulepaths: &[&Path],
    site: &ModulesSite,
    user: Option<&User>,
    timeout: Timeout,
) -> Result<Measured, String> {
    let argv = site.argv("bash", ask.words());
    let command = Command::of(argv);
    let stage = stage(modulepaths, user.is_some(), timeout);
    let act = || run(&command, modulepaths, &site.command);
    match user {
        Some(user) => user.play(&stage, act).map_err(|error| error.to_string())?,
        None => stage.play(act).map_err(|error| error.to_string())?.result,
    }
}

fn stage(modulepaths: &[&Path], as_another: bool, timeout: Timeout) -> Stage {
    let mut stage = Stage::new();
    stage.timeout = Some(timeout.0);
    let paths: Vec<_> = modulepaths.iter().map(|path| path.as_os_str()).collect();
    let mut set = |name: &str, value: OsString| stage.environment.push((name.into(), value));
    set("MODULEPATH", paths.join(std::ffi::OsStr::new(":")));
    for state in ["LOADEDMODULES", "_LMFILES_", "MODULES_PAGER"] {
        set(state, OsString::new());
    }
    if as_another {
        set("HOME", "/".into());
    }
    stage
}

fn run(command: &Command, modulepaths: &[&Path], script: &Path) -> Result<Measured, String> {
    let (recording, ended) = recorded(command)?;
    let is_script = |path| recording.path(path) == script.as_os_str().as_bytes();
    let mut opened = recording.events.iter().filter(|event| event.call.kind() == Kind::Open);
    if !opened.any(|event| event.path.is_some_and(is_script) && !event.outcome.failed()) {
        return Err(format!("{} could not be read: it was not run", script.display()));
    }
    let calls = TreeCalls::of(&recording, modulepaths);
    let everywhere = recording.events.len() as u64;
    let mut times = [0.0; 3];
    for time in &mut times {
        let timed = launch::timed(command).map_err(|error| error.to_string())?;
        *time = timed.wall.as_secs_f64() * 1000.0;
    }
    times.sort_by(f64::total_cmp);
    Ok(Measured { calls, everywhere, milliseconds: times[1], ended })
}
