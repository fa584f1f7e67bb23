//! Gives up taking something back: what is kept for that is removed, and its room is free again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recording::ByteUnits;
use schemars::JsonSchema;
use serde::Serialize;

use crate::change::{FileChange, ItemKind};
use crate::clean::clean;
use crate::directory_times::DirectoryTimes;
use crate::journal::{self, Journal, JournalRecord, JournalStage, Story};
use crate::{Error, Options, check, state};

/// What can no longer be undone, or could not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Forgotten {
    /// What had been applied.
    pub id: String,
    /// The title of its plan.
    pub title: String,
    /// How much room is free again.
    pub freed: ByteUnits,
    /// The files beside those that were replaced, which are removed: what these had been before.
    #[serde(with = "crate::text::paths")]
    #[schemars(with = "Vec<crate::text::TextForm>")]
    pub removed: Vec<PathBuf>,
}

/// Removes what is kept to undo what was applied under an id; with `dry_run`, only says what that is.
/// All else stays as it is; the id is not given again. Where it is killed in the midst, what is left can be
/// forgotten again.
///
/// # Errors
/// If it is under way or was interrupted, so that files may be neither old nor new; if it was forgotten
/// before; if what has a kept file's name is another, or cannot be removed, of which a dry run tells, too.
pub fn forget(id: &str, options: &Options, dry_run: bool) -> Result<Forgotten, Error> {
    let directory = state::journal_directory(&options.state, id)?;
    let _locked = if dry_run { None } else { Some(state::lock(options)?) };
    let story = Story::read(&directory)?;
    match &story.status {
        JournalStage::Open => {
            let reason = format!("is the journal of what was interrupted; first becalm undo {id}");
            return Err(Error::refused(&directory, reason));
        }
        JournalStage::Forgotten => return Err(Error::Forgotten { id: id.to_owned() }),
        JournalStage::Applied | JournalStage::Undone { .. } => {}
    }
    let removed = kept_beside(&story)?;
    for path in &removed {
        check::can_be_removed(path)?;
    }
    let kept = journal::all_kept(&directory);
    let freed = room(&removed) + room(&files_in(&kept));
    if !dry_run {
        // Where it cannot be told that they are gone, they stay.
        let mut journal = Journal::resume(&story)?;
        let stays = clean(removed.iter().map(PathBuf::as_path), &DirectoryTimes::default());
        if !stays.is_empty() {
            return Err(Error::Changed { changed: stays });
        }
        match fs::remove_dir_all(&kept) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::at("remove", &kept, error));
            }
            _ => {}
        }
        // What was undone, stays so.
        if can_be_undone(&story.status) {
            journal.add([JournalRecord::Forgotten])?;
            journal.sync()?;
        }
    }
    Ok(Forgotten { id: id.to_owned(), title: story.title, freed: ByteUnits(freed), removed })
}

/// The other names of what was replaced that are still there, and are still that.
fn kept_beside(story: &Story) -> Result<Vec<PathBuf>, Error> {
    let mut there = Vec::new();
    for item in story.changes.iter().filter_map(FileChange::removed) {
        let (Some(path), ItemKind::File { version, seen, .. }) = (item.aside(), &item.thing) else {
            continue;
        };
        let Ok(found) = path.symlink_metadata() else { continue };
        let is_it = found.is_file()
            && found.len() == version.size.0
            && seen.is_none_or(|seen| seen.is_still(&found));
        if !is_it {
            return Err(Error::refused(&path, "is not what was kept there; see what it is"));
        }
        there.push(path);
    }
    Ok(there)
}

fn can_be_undone(stage: &JournalStage) -> bool {
    match stage {
        JournalStage::Undone { skipped } => !skipped.is_empty(),
        stage => *stage == JournalStage::Applied,
    }
}

fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The room that files take, in bytes; what another name has stays.
fn room(files: &[PathBuf]) -> u64 {
    let found = files.iter().filter_map(|path| path.symlink_metadata().ok());
    found.filter(|about| about.nlink() == 1).map(|about| about.blocks() * 512).sum()
}
