//! Gives up taking something back: what is kept for that is removed, and its room is free again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recording::ByteUnits;
use schemars::JsonSchema;
use serde::Serialize;

use crate::change::FileChange;
use crate::journal::{self, Journal, JournalRecord, JournalStage, Story};
use crate::{Error, Options, state, work};

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
/// All else stays as it is; the id is not given again. What was forgotten by halves is forgotten whole.
///
/// # Errors
/// If it is under way or was interrupted, so that files may be neither old nor new, or a system call
/// fails: what was removed by then is gone.
pub fn forget(id: &str, options: &Options, dry_run: bool) -> Result<Forgotten, Error> {
    let unknown = || Error::Unknown { id: id.to_owned() };
    let directory = state::journal_directory(&options.state, id).ok_or_else(unknown)?;
    let _locked = if dry_run { None } else { Some(state::lock(&options.state)?) };
    let story = Story::read(&directory)?;
    if story.status == JournalStage::Open {
        return Err(Error::refused(
            &directory,
            format!("is the journal of what was interrupted; first becalm undo {id}"),
        ));
    }
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    let removed: Vec<_> =
        story.changes.iter().filter_map(FileChange::aside).filter(is_there).collect();
    let kept = journal::all_kept(&directory);
    let freed = room(&removed) + room(&files_in(&kept));
    if !dry_run {
        // What was undone, stays so.
        if can_be_undone(&story.status) {
            let mut journal = Journal::resume(&story)?;
            journal.add([JournalRecord::Forgotten])?;
            journal.sync()?;
        }
        work::clean(removed.iter().map(PathBuf::as_path))?;
        match fs::remove_dir_all(&kept) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::at("remove", &kept, error));
            }
            _ => {}
        }
    }
    Ok(Forgotten { id: id.to_owned(), title: story.title, freed: ByteUnits(freed), removed })
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
