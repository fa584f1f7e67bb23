//! `becalm run CALM`: a launch as a calm file says.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use cure::{CalmChange, CalmFile, CalmFileError};
use image::mount::{Bind, Freshness, MountCondition, PlacedImage};
use recording::shown_name;
use remedy::{Digest, FileLook};
use schemars::JsonSchema;
use serde::Serialize;

use super::image_freshness::ImageFreshness;
use crate::exit::Failure;

/// The variable that tells the command which calm file it was started by.
const VARIABLE: &str = "BECALM_CALM";

/// A calm file to launch by.
#[derive(Clone)]
pub struct CalmLaunch {
    /// Where it is, as it was given.
    path: PathBuf,
    /// What it says.
    pub file: Arc<CalmFile>,
}

/// A calm file, as `becalm run --json` tells it.
#[derive(Serialize, JsonSchema)]
pub struct LaunchedCalm {
    /// Where it is, as it was given.
    file: String,
    /// The command that it was made for.
    command: Vec<String>,
    /// The working directory in which that was given.
    directory: String,
    /// How many copies are seen in the place of files.
    shown: usize,
    /// Names of the variables that it sets.
    set: Vec<String>,
    /// Names of the variables that it unsets.
    unset: Vec<String>,
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

    /// Where it is, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The command: the given one, or the calm file's own.
    pub fn command(&self, given: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
        if !given.is_empty() {
            return Ok(given);
        }
        let here = std::env::current_dir().context("cannot tell the working directory");
        let here = here.map_err(Failure::of_command)?;
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

    /// Its first image.
    fn image(&self) -> Option<&Path> {
        self.file.image.as_ref().map(|image| &*image.file)
    }

    /// Its images, each with its place.
    pub fn images(&self) -> Vec<PlacedImage> {
        let first = self.image().map(|file| PlacedImage { file: file.to_owned(), at: None });
        let beside = self.file.beside.iter();
        let beside = beside
            .map(|beside| PlacedImage { file: beside.image.file.clone(), at: beside.at.clone() });
        first.into_iter().chain(beside).collect()
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
        let launch = self.clone();
        // Ranks of a calm file that was written again are others.
        let of = Digest::of(format!("{:?}", self.file).as_bytes()).to_string();
        MountCondition { of, holds: Arc::new(move |freshness| launch.holds(freshness)) }
    }

    /// The same where nothing is mounted, and where the image is missing, which would be met first.
    pub fn check_alone(&self, freshness: ImageFreshness) -> Result<(), Failure> {
        let images = self.images();
        let done = match images.iter().find(|image| !image.file.exists()) {
            Some(gone) => Err(self.refusal(&format!("{} is gone", gone.file.display()), false)),
            None if images.is_empty() && self.file.shown.is_empty() => self.holds(freshness.into()),
            None => Ok(()),
        };
        done.map_err(|why| Failure::of_command(anyhow!(why)))
    }

    /// The line for one whose images are of no use where it lies now.
    pub fn elsewhere(&self) -> Option<String> {
        let why = self.file.why_images_are_elsewhere()?;
        Some(format!("{}: {why}. Write it again: {}", self.path.display(), self.write_again()))
    }

    /// What does not hold any more, and what to do. Where the calm file could be used as it is, that
    /// is said, too.
    pub fn refusal(&self, what: &str, could_be_used: bool) -> String {
        let (path, again) = (self.path.display(), self.write_again());
        let or = if could_be_used { " (or run it as it is with --check no)" } else { "" };
        format!("{path} does not hold any more: {what}. Write it again: {again}{or}")
    }

    /// The line that writes the calm file again.
    pub fn write_again(&self) -> String {
        self.file.write_again_from_here(&self.path)
    }

    /// Says what does not hold any more: the first of it, and how much there is.
    fn holds(&self, freshness: Freshness) -> Result<(), String> {
        let look = match freshness {
            Freshness::No => return Ok(()),
            Freshness::Quick => FileLook::Glance,
            Freshness::Full => FileLook::Content,
        };
        let changes = self.file.changes(look);
        let Some(first) = changes.first() else {
            let why = self.file.why_not_executable();
            let path = self.path.display();
            let elsewhere = |why| format!("{path}: {why}: write it to another filesystem");
            return why.map_or(Ok(()), |why| Err(elsewhere(why)));
        };
        let more = match changes.len() as u64 - 1 {
            0 => String::new(),
            more => format!(", and {} more", term::number::counted(more, "file", "files")),
        };
        let could_be_used = changes.iter().all(CalmChange::is_of_content);
        let what = format!("{} {}{more}", first.path.display(), first.what);
        Err(self.refusal(&what, could_be_used))
    }

    /// What docs/schema/becalm.run.md describes.
    pub fn about(&self) -> LaunchedCalm {
        let names = |names: &mut dyn Iterator<Item = &OsString>| -> Vec<String> {
            names.map(shown_name).collect()
        };
        let environment = &self.file.environment;
        LaunchedCalm {
            file: shown_name(&self.path),
            command: names(&mut self.file.command.iter()),
            directory: shown_name(&self.file.directory),
            shown: self.file.shown.len(),
            set: names(&mut environment.set.keys()),
            unset: names(&mut environment.unset.iter()),
        }
    }
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
