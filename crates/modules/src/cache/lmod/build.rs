//! A new cache by Lmod's own tool, built beside and renamed.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use launch::{CannotStart, Command, Ended, Stage, StageError};
use rustix::fs::Mode;

use super::check::cache_in;
use super::privacy::Privacy;
use super::spider::parse;
use crate::site::Environment;

/// The timestamp's name beside the new cache.
const STAMP: &str = "timestamp";

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
    /// Everyone would see in it what not everyone may read.
    #[error("not everyone may read {}, and everyone reads Lmod's cache: without one, Lmod looks \
        there itself", .0.display())]
    Private(PathBuf),
    /// A file that could not be read or written.
    #[error("cannot {operation} {}: {error}", .path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

impl LmodError {
    fn at(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LmodError {
        let path = path.to_owned();
        move |error| LmodError::File { operation, path, error }
    }
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

/// A modulepath that is in no cache: each user's Lmod walks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateModulepath {
    /// The modulepath.
    pub modulepath: PathBuf,
    /// What in it not everyone may read.
    pub private: PathBuf,
}

/// Builds the cache of these modulepaths in `directory`, and touches `timestamp`. It is built
/// beside, in a directory that only this user may enter, and takes the place of the old one when
/// it shows nobody what he may not read. A modulepath with anything that not everyone may read is
/// left out of it.
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
) -> Result<Vec<PrivateModulepath>, LmodError> {
    make_directory(directory).map_err(LmodError::at("create", directory))?;
    let mut privacy = Privacy::beside(directory);
    let (mut paths, mut left_out) = (Vec::new(), Vec::new());
    for modulepath in modulepaths {
        match privacy.first_limit(modulepath) {
            None => paths.push(modulepath.clone().into_os_string()),
            Some(private) => {
                left_out.push(PrivateModulepath { modulepath: modulepath.clone(), private })
            }
        }
    }
    if let ([], Some(PrivateModulepath { private, .. })) = (&*paths, left_out.first()) {
        return Err(LmodError::Private(private.clone()));
    }
    let beside = tempfile::Builder::new()
        .prefix(".becalm-")
        .tempdir_in(directory)
        .map_err(LmodError::at("create a directory in", directory))?;
    let stamp = beside.path().join(STAMP);
    run(tool, beside.path(), &stamp, &paths)?;
    let cache = cache_in(beside.path());
    let text = std::fs::read(&cache).map_err(LmodError::at("read", &cache))?;
    if let Some(private) =
        parse(&text).ok().and_then(|spider| privacy.disclosed(&spider).into_iter().next())
    {
        return Err(LmodError::Private(private));
    }
    publish(beside.path(), directory).map_err(LmodError::at("publish the cache in", directory))?;
    touch(&stamp, timestamp).map_err(LmodError::at("write", timestamp))?;
    Ok(left_out)
}

/// Lmod's tool.
fn run(
    tool: &Path,
    directory: &Path,
    timestamp: &Path,
    paths: &[OsString],
) -> Result<(), LmodError> {
    let argv: Vec<OsString> = vec![
        tool.into(),
        "-d".into(),
        directory.into(),
        "-t".into(),
        timestamp.into(),
        paths.join(std::ffi::OsStr::new(":")),
    ];
    let command = Command::of(argv);
    let played = Stage::new().play(|| {
        // What it makes is for everyone: it makes files as the umask has it.
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

/// The cache's directory, for everyone whatever the umask.
fn make_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(directory)?;
    std::fs::set_permissions(directory, Permissions::from_mode(0o755))
}

/// Each file takes the place of the old one at once. What Lmod reads first comes first: it is
/// never older than the text beside it.
fn publish(from: &Path, to: &Path) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(from)? {
        names.push(entry?.file_name());
    }
    names.retain(|name| name != STAMP);
    names.sort_by_key(|name| name.to_string_lossy().ends_with(".lua"));
    for name in names {
        std::fs::rename(from.join(&name), to.join(&name))?;
    }
    Ok(())
}

/// A new timestamp with the time that Lmod's tool has made it at, before it walked.
fn touch(made: &Path, timestamp: &Path) -> io::Result<()> {
    let modified = std::fs::metadata(made)?.modified()?;
    let around = timestamp.parent().filter(|parent| !parent.as_os_str().is_empty());
    let around = around.unwrap_or(Path::new("."));
    std::fs::create_dir_all(around)?;
    let new = tempfile::NamedTempFile::new_in(around)?;
    new.as_file().set_permissions(Permissions::from_mode(0o644))?;
    new.as_file().set_modified(modified)?;
    new.persist(timestamp).map(|_| ()).map_err(|why| why.error)
}
