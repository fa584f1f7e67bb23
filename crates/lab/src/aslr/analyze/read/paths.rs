//! Which files to read, and what form they have.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::arm::{self, Input};
use super::line::{self, LogLines};
use super::{LogForm, LogReadError};

/// A file to read.
pub(super) struct LogSource {
    pub path: PathBuf,
    pub form: LogForm,
    /// Its arm, if its form says none.
    pub arm: String,
    /// Whether that is only its name.
    pub inferred: bool,
}

/// The files to read, and how many in the published form are left out: a campaign prints its
/// times in that form, too, and none may count twice.
pub(super) fn sources(inputs: &[Input]) -> Result<(Vec<LogSource>, u64), LogReadError> {
    let (mut sources, mut beside, mut known) = (Vec::new(), 0, HashSet::new());
    for input in inputs {
        let there = metadata(&input.path)?;
        let mut found = match there.is_dir() {
            true => directory(input)?,
            false if there.is_file() => vec![file(input)?],
            false => return Err(LogReadError::NoFile { path: input.path.clone() }),
        };
        if there.is_dir() && found.iter().any(|source| source.form == LogForm::Own) {
            let all = found.len();
            found.retain(|source| source.form == LogForm::Own);
            beside += (all - found.len()) as u64;
        }
        for source in found {
            let there = metadata(&source.path)?;
            if !known.insert((there.dev(), there.ino())) {
                return Err(LogReadError::Twice { path: source.path });
            }
            sources.push(source);
        }
    }
    Ok((sources, beside))
}

fn file(input: &Input) -> Result<LogSource, LogReadError> {
    let path = input.path.clone();
    let form = form(&path, true)?.ok_or_else(|| LogReadError::Nothing { path: path.clone() })?;
    let named = arm::named(&path).map(str::to_owned);
    let inferred = input.arm.is_none() && named.is_some();
    let arm = input.arm.clone().or(named);
    let arm = arm.unwrap_or_else(|| path.to_string_lossy().into_owned());
    Ok(LogSource { path, form, arm, inferred })
}

/// The logs below a directory. Other files may be there, too: a script, what the batch system
/// wrote.
fn directory(input: &Input) -> Result<Vec<LogSource>, LogReadError> {
    let mut paths = Vec::new();
    walk(&input.path, &mut paths)?;
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let Some(form) = form(&path, false)? else { continue };
        let named = arm::named_below(&path, &input.path).map(str::to_owned);
        let below = path.strip_prefix(&input.path).unwrap_or(&path).to_string_lossy();
        let arm = input.arm.clone().or(named).unwrap_or_else(|| below.into_owned());
        sources.push(LogSource { path, form, arm, inferred: input.arm.is_none() });
    }
    match sources.is_empty() {
        true => Err(LogReadError::Nothing { path: input.path.clone() }),
        false => Ok(sources),
    }
}

/// The files below a directory. Links to directories are not followed: they may lead in circles.
fn walk(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<(), LogReadError> {
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let failed = |error| LogReadError::Io { path: directory.clone(), error };
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let path = entry.path();
            if kind.is_dir() {
                directories.push(path);
            } else if fs::metadata(&path).is_ok_and(|there| there.is_file()) {
                paths.push(path);
            }
        }
    }
    Ok(())
}

/// The form of a file: that of its first record. Plain numbers are only looked for where a person
/// says that there are some.
fn form(path: &Path, may_be_plain: bool) -> Result<Option<LogForm>, LogReadError> {
    let failed = |error| LogReadError::Io { path: path.to_owned(), error };
    let mut lines = LogLines::of(File::open(path).map_err(failed)?);
    while let Some(line) = lines.next().map_err(failed)? {
        let text = line.text.trim_ascii();
        let form = line::form_of(text);
        if form.is_some() {
            return Ok(form);
        }
        if may_be_plain && line::number(text).is_some() {
            return Ok(Some(LogForm::Plain));
        }
    }
    Ok(None)
}

fn metadata(path: &Path) -> Result<fs::Metadata, LogReadError> {
    fs::metadata(path).map_err(|error| LogReadError::Io { path: path.to_owned(), error })
}
