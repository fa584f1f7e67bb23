//! A new cache by Lmod's own tool, which writes beside and renames.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use launch::{CannotStart, Command, Ended, Stage, StageError};
use rustix::fs::Mode;

use crate::site::Environment;

/// Why there is no new cache.
#[derive(Debug, thiserror::Error)]
pub enum LmodError {
    /// Lmod's tool is nowhere.
    #[error("no update_lmod_system_cache_files: LMOD_PKG and LMOD_DIR are not set, or have none")]
    NoTool,
    /// It did not do it.
    #[error("{}: {said}", .tool.display())]
    Failed {
        /// The tool.
        tool: PathBuf,
        /// How it ended, and its last words.
        said: String,
    },
    /// It could not be run.
    #[error(transparent)]
    Stage(#[from] StageError),
}

/// Lmod's `update_lmod_system_cache_files`, where its shell initialisation says that Lmod is.
///
/// # Errors
/// [`LmodError::NoTool`].
pub fn tool(environment: &Environment) -> Result<PathBuf, LmodError> {
    let package = environment.get("LMOD_PKG").map(|package| Path::new(package).join("libexec"));
    let directories = package.into_iter().chain(environment.get("LMOD_DIR").map(PathBuf::from));
    directories
        .map(|directory| directory.join("update_lmod_system_cache_files"))
        .find(|tool| tool.is_file())
        .ok_or(LmodError::NoTool)
}

/// Builds the cache of these modulepaths in `directory`, and touches `timestamp`.
///
/// This forks: call it while the process has one thread.
///
/// # Errors
/// [`LmodError`].
pub fn build(
    tool: &Path,
    directory: &Path,
    timestamp: &Path,
    modulepaths: &[PathBuf],
) -> Result<(), LmodError> {
    let paths: Vec<OsString> = modulepaths.iter().map(|path| path.clone().into()).collect();
    let argv: Vec<OsString> = vec![
        tool.into(),
        "-d".into(),
        directory.into(),
        "-t".into(),
        timestamp.into(),
        paths.join(std::ffi::OsStr::new(":")),
    ];
    let command = Command { argv };
    let played = Stage::new().play(|| {
        // What it makes is for everyone: it makes directories and the timestamp as the umask has
        // it.
        rustix::process::umask(Mode::WGRP | Mode::WOTH);
        launch::timed(&command).map(|timed| timed.ended).map_err(|why: CannotStart| why.to_string())
    })?;
    let failed = |said: String| LmodError::Failed { tool: tool.to_owned(), said };
    match played.result.map_err(failed)? {
        Ended::Exited(0) => Ok(()),
        ended => {
            let text = String::from_utf8_lossy(&played.stderr.head).into_owned();
            let last = text.lines().last().unwrap_or_default();
            Err(failed(format!("{ended:?}: {last}")))
        }
    }
}
