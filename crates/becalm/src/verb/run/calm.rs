//! `becalm run CALM`: a launch as a calm file says.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use cure::{CalmFile, CalmFileError};
use image::mount::{Bind, Freshness, MountCondition};
use recording::shown_name;
use remedy::{Digest, FileLook};

use super::image_freshness::ImageFreshness;
use crate::exit::Failure;

/// The variable that tells the command which calm file it was started by.
const VARIABLE: &str = "BECALM_CALM";

/// A calm file to launch by.
pub struct CalmLaunch {
    /// Where it is, as it was given.
    path: PathBuf,
    /// What it says.
    pub file: Arc<CalmFile>,
}

impl CalmLaunch {
    /// Reads it.
    pub fn read(path: &Path) -> Result<CalmLaunch, Failure> {
        let file = CalmFile::read(path).map_err(|error| {
            // Words of a command were meant, perhaps.
            let is_none = !matches!(error, CalmFileError::Wrong { .. });
            let hint = if is_none { " (a command stands after a --)" } else { "" };
            Failure::of_command(anyhow!("{error}{hint}"))
        })?;
        Ok(CalmLaunch { path: path.to_owned(), file: Arc::new(file) })
    }

    /// The command: the given one, or the calm file's own.
    pub fn command(&self, given: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
        if !given.is_empty() {
            return Ok(given);
        }
        let here = std::env::current_dir().map_err(Failure::of_command)?;
        let there = &self.file.directory;
        let is_other = |word: &&OsString| means_another_file(word, there, &here);
        // The first one is searched for in PATH, unless it has a slash.
        let has_slash = |word: &OsString| word.as_bytes().contains(&b'/');
        let skipped = usize::from(self.file.command.first().is_some_and(|word| !has_slash(word)));
        match self.file.command.iter().skip(skipped).find(is_other) {
            None => Ok(self.file.command.clone()),
            Some(word) => Err(Failure::of_command(anyhow!(
                "{} repeats a command that was given in {}, and {} is another file there than here: \
                 go there first (cd {}), or say what to run: becalm run {} -- CMD",
                self.path.display(),
                there.display(),
                term::plain(&word.to_string_lossy()),
                term::quoted_path(there),
                term::quoted_path(&self.path),
            ))),
        }
    }

    /// Has this process, and so the command, see the calm file's variables.
    pub fn change_environment(&self) {
        let environment = &self.file.environment;
        launch::unset_variables(&environment.unset);
        let set: Vec<_> = environment.set.clone().into_iter().collect();
        launch::set_variables(&set);
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        launch::set_variables(&[(VARIABLE.into(), path.into())]);
    }

    /// Its image.
    pub fn image(&self) -> Option<&Path> {
        self.file.image.as_ref().map(|image| &*image.file)
    }

    /// Its copies, each to be seen in its file's place.
    pub fn shown(&self) -> Vec<Bind> {
        let shown = self.file.shown.iter();
        let bind = shown.map(|shown| Bind {
            from: shown.copy.clone(),
            at: shown.file.clone(),
            read_only: true,
        });
        bind.collect()
    }

    /// What must hold before anything is mounted; ranks of a node ask once.
    pub fn condition(&self) -> MountCondition {
        let file = self.file.clone();
        // Ranks of a calm file that was written again are others.
        let of = Digest::of(format!("{file:?}").as_bytes()).to_string();
        MountCondition { of, holds: Arc::new(move |freshness| holds(&file, freshness)) }
    }

    /// The same where nothing is mounted, and where the image is missing, which would be met first.
    pub fn check_alone(&self, freshness: ImageFreshness) -> Result<(), Failure> {
        if let Some(image) = self.image().filter(|image| !image.exists()) {
            return Err(self.refused(&format!("{} is gone", image.display())));
        }
        match self.image().is_none() && self.file.shown.is_empty() {
            true => holds(&self.file, freshness.into()).map_err(|what| self.refused(&what)),
            false => Ok(()),
        }
    }

    /// What does not hold any more, and what to do.
    pub fn refused(&self, what: &str) -> Failure {
        let again = self.file.write_again_from_here(&self.path);
        Failure::of_command(anyhow!(
            "{} does not hold any more: {what}. Write it again: {again} (or run it as it is with \
             --check no)",
            self.path.display()
        ))
    }

    /// What docs/schema/becalm.run.md describes.
    pub fn about(&self) -> serde_json::Value {
        let names = |names: &mut dyn Iterator<Item = &OsString>| -> Vec<String> {
            names.map(shown_name).collect()
        };
        let environment = &self.file.environment;
        serde_json::json!({
            "file": shown_name(&self.path),
            "command": names(&mut self.file.command.iter()),
            "directory": shown_name(&self.file.directory),
            "shown": self.file.shown.len(),
            "set": names(&mut environment.set.keys()),
            "unset": names(&mut environment.unset.iter()),
        })
    }
}

/// What does not hold any more, in words: the first of it, and how much there is.
fn holds(calm: &CalmFile, freshness: Freshness) -> Result<(), String> {
    let look = match freshness {
        Freshness::No => return Ok(()),
        Freshness::Quick => FileLook::Glance,
        Freshness::Full => FileLook::Content,
    };
    let changes = calm.changes(look);
    let Some(first) = changes.first() else { return calm.why_not_executable().map_or(Ok(()), Err) };
    let more = match changes.len() {
        1 => String::new(),
        several => {
            format!(", and {} more", term::number::counted(several as u64 - 1, "file", "files"))
        }
    };
    Err(format!("{} {}{more}", first.path.display(), first.what))
}

/// Whether a word, or what follows its `=`, is a file of the one directory by its name, and not
/// the same in the other.
fn means_another_file(word: &OsStr, there: &Path, here: &Path) -> bool {
    let bytes = word.as_bytes();
    let value = bytes.iter().position(|byte| *byte == b'=').map(|at| &bytes[at + 1..]);
    let mut names = [Some(bytes), value].into_iter().flatten().map(OsStr::from_bytes);
    names.any(|name| {
        let is_relative = !name.is_empty() && Path::new(name).is_relative();
        is_relative && is_other(&there.join(name), &here.join(name))
    })
}

fn is_other(there: &Path, here: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
    match (identity(there), identity(here)) {
        (None, _) => false,
        (there, here) => there != here,
    }
}
