//! What others hold by of what was applied: taken back, it would be gone from under them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::journal::{JournalStage, Story};
use crate::work::FileWork;
use crate::{Changed, check, state};

/// Takes the jobs out of which another application that stays holds by a file, and says which.
pub(crate) fn hold_for_others(
    jobs: &mut Vec<FileWork>,
    story: &Story,
    state: &Path,
) -> Vec<Changed> {
    if jobs.is_empty() {
        return Vec::new();
    }
    let relied = relied_on(story, state);
    let mut held = Vec::new();
    jobs.retain(|job| {
        let by = job.change.paths().iter().find_map(|path| Some((path, relied.get(path)?)));
        let Some((path, (id, can_be_undone))) = by else { return true };
        let way = if *can_be_undone { "undo that first" } else { "that was forgotten" };
        let reason = format!("is used by what {id} has changed; {way}");
        held.push(Changed { path: path.clone(), reason, by: Some(id.clone()) });
        false
    });
    held
}

/// What later applications that stay hold by, with one that does, and whether that can be undone. Earlier ones saw
/// the files as they are to be again.
fn relied_on(story: &Story, state: &Path) -> HashMap<PathBuf, (String, bool)> {
    let mut relied = HashMap::new();
    let directories = state::journal_directories(state).unwrap_or_default();
    let later = directories.iter().skip_while(|directory| **directory != story.directory).skip(1);
    for other in later.filter_map(|directory| Story::read(directory).ok()) {
        if other.due().next().is_none() {
            continue;
        }
        let can_be_undone = other.status != JournalStage::Forgotten;
        for path in &other.relies {
            let names = [check::resolved(path).ok(), path.canonicalize().ok()];
            for name in names.into_iter().flatten() {
                relied.entry(name).or_insert_with(|| (other.id.clone(), can_be_undone));
            }
        }
    }
    relied
}
