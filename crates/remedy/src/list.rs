//! What was applied, and what became of it.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::change::FileChange;
use crate::journal::{JournalStage, Story};
use crate::{Error, state};

/// One application of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// When it began, in seconds since 1970; 0 where it was interrupted before it was told.
    pub at: u64,
    /// The title of its plan.
    pub title: String,
    /// How many paths it changes.
    pub files: u64,
    /// What became of it.
    pub status: Status,
}

/// What became of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is applied.
    Applied,
    /// It, or undoing it, was interrupted: each file is old or new. Undoing it makes all old.
    Interrupted,
    /// It, or undoing it, is under way.
    Running,
    /// It is undone.
    Undone,
    /// It is undone, but for files that had changed since.
    PartlyUndone,
    /// What was kept to undo it is removed: it stays as it is.
    Forgotten,
    /// Its journal is damaged: it cannot be undone.
    Damaged,
}

impl Status {
    /// Its word for people.
    pub fn name(self) -> &'static str {
        match self {
            Status::Applied => "applied",
            Status::Interrupted => "interrupted",
            Status::Running => "running",
            Status::Undone => "undone",
            Status::PartlyUndone => "partly undone",
            Status::Forgotten => "forgotten",
            Status::Damaged => "damaged",
        }
    }

    /// Whether there is something to undo.
    pub fn can_be_undone(self) -> bool {
        matches!(self, Status::Applied | Status::Interrupted | Status::PartlyUndone)
    }
}

impl Entry {
    /// When it began, in UTC: `2026-11-21 22:15`; empty where that is not known.
    pub fn when(&self) -> String {
        let minutes = self.at / 60;
        let (year, month, day) = state::civil(self.at / 86400);
        let (hour, minute) = (minutes / 60 % 24, minutes % 60);
        if self.at == 0 {
            return String::new();
        }
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
    }
}

/// All that was applied with this state directory, the oldest first.
///
/// # Errors
/// If the state directory is there and cannot be read.
pub fn list(state: &Path) -> Result<Vec<Entry>, Error> {
    // Asked first: what ends in between is then told as under way, never as interrupted.
    let busy = state::is_busy(state);
    state::journal_directories(state)?.iter().map(|directory| entry(directory, busy)).collect()
}

/// What `becalm undo` without an id would undo: the last that can be undone. One that is partly
/// undone already is left for when there is no other: what was skipped of it, was on purpose.
///
/// # Errors
/// If there is none.
pub fn last(state: &Path) -> Result<Entry, Error> {
    last_of(&list(state)?).cloned().ok_or(Error::Nothing)
}

/// The same of what [`list`] gives.
pub fn last_of(entries: &[Entry]) -> Option<&Entry> {
    let due = || entries.iter().rev().filter(|entry| entry.status.can_be_undone());
    due().find(|entry| entry.status != Status::PartlyUndone).or_else(|| due().next())
}

/// What became of what was applied under an id.
///
/// # Errors
/// If there is no such id, or its journal cannot be read.
pub fn status(state: &Path, id: &str) -> Result<Status, Error> {
    let directory = state::journal_directory(state, id)?;
    entry(&directory, state::is_busy(state)).map(|entry| entry.status)
}

fn entry(directory: &Path, busy: bool) -> Result<Entry, Error> {
    let story = match Story::read(directory) {
        Ok(story) => story,
        Err(Error::Damaged { .. }) => {
            let id = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(Entry {
                id,
                at: 0,
                title: String::new(),
                files: 0,
                status: Status::Damaged,
            });
        }
        Err(error) => return Err(error),
    };
    let status = match &story.status {
        JournalStage::Open if busy => Status::Running,
        JournalStage::Open => Status::Interrupted,
        JournalStage::Applied => Status::Applied,
        JournalStage::Undone { skipped } if skipped.is_empty() => Status::Undone,
        JournalStage::Undone { .. } => Status::PartlyUndone,
        JournalStage::Forgotten => Status::Forgotten,
    };
    let files = story.changes.iter().map(|change| FileChange::paths(change).len() as u64).sum();
    Ok(Entry { id: story.id, at: story.at, title: story.title, files, status })
}
