//! Takes back what was applied: byte for byte, and only where nothing else has changed since.

use std::path::{Path, PathBuf};

use crate::change::{FileChange, ItemKind};
use crate::content::NewContent;
use crate::directory_times::{ChangedDirectory, DirectoryTimes};
use crate::held_directories::HeldDirectories;
use crate::journal::{self, Journal, JournalRecord, JournalStage, Story};
use crate::look::{self, FoundState};
use crate::work::{self, FileWork};
use crate::{Changed, Error, Options, Tally, check, new_files, pool, state};

/// How to undo.
#[derive(Clone, Copy, Debug, Default)]
pub struct UndoOptions {
    /// Leave what has changed since, or cannot be taken back now, as it is, and take back the rest.
    pub skip_changed: bool,
    /// Only find out what would be done.
    pub dry_run: bool,
}

/// What was undone, or would be.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Undone {
    /// What had been applied.
    pub id: String,
    /// The title of its plan.
    pub title: String,
    /// How much was taken back. What was as before already does not count.
    pub restored: Tally,
    /// What has changed since, or cannot be taken back now, and was left as it is.
    pub skipped: Vec<Changed>,
    /// Directories that becalm had made and that are not empty: they stay.
    #[serde(with = "crate::text::paths")]
    #[schemars(with = "Vec<crate::text::TextForm>")]
    pub left: Vec<PathBuf>,
}

/// Undoes what was applied under an id, or finishes what was interrupted.
///
/// # Errors
/// If files have changed since or cannot be taken back now (all of them are in
/// [`Error::Changed`]; a dry run asks, too), if nothing but room for them is missing
/// ([`Error::NoRoom`]), or a system call fails.
/// After a failure in the midst of it, each file is as before or as after the application, and the
/// same undo can be tried again.
pub fn undo(id: &str, options: &Options, how: UndoOptions) -> Result<Undone, Error> {
    let unknown = || Error::Unknown { id: id.to_owned() };
    let directory = state::journal_directory(&options.state, id).ok_or_else(unknown)?;
    let _locked = if how.dry_run { None } else { Some(state::lock(&options.state)?) };
    let story = Story::read(&directory)?;
    if matches!(&story.status, JournalStage::Undone { skipped } if skipped.is_empty()) {
        return Err(Error::Undone { id: id.to_owned() });
    }
    if story.status == JournalStage::Forgotten {
        return Err(Error::Forgotten { id: id.to_owned() });
    }
    let was_applied = story.status == JournalStage::Applied;
    if !how.dry_run {
        work::clean(story.litter())?;
    }
    let (jobs, changed) = inverse_jobs(&story.changes, &directory, was_applied, options)?;
    let untouched = jobs.is_empty() && changed.is_empty();
    if !story.ready && !untouched {
        // Files have been renamed, and the journal that says so has been cut since.
        return Err(Error::Damaged { path: directory.join("journal"), at: story.whole_until });
    }
    let (jobs, mut obstacles) = check::possible(jobs);
    let mut skipped = by_whom(changed, &story, &options.state);
    let is_of_room = |(_, error): &(PathBuf, Error)| matches!(error, Error::NoRoom { .. });
    if !how.skip_changed && skipped.is_empty() && obstacles.iter().all(is_of_room) {
        // Each file that is on a full filesystem would say the same of it.
        obstacles.pop().map_or(Ok(()), |(_, error)| Err(error))?;
    }
    skipped.extend(obstacles.into_iter().map(obstacle));
    if !skipped.is_empty() && !how.skip_changed {
        return Err(Error::Changed { changed: skipped });
    }
    let restored =
        Tally::of(jobs.iter().map(|job| job.change.inverse()).collect::<Vec<_>>().iter());
    let mut undone = Undone {
        id: id.to_owned(),
        title: story.title.clone(),
        restored,
        skipped,
        left: Vec::new(),
    };
    if !how.dry_run {
        let mut journal = Journal::resume(&story)?;
        let is_whole = |directory: &&ChangedDirectory| {
            let mut skipped =
                undone.skipped.iter().map(|changed| work::directory_of(&changed.path));
            !skipped.any(|skipped| skipped == directory.path)
        };
        let directories: Vec<_> = story.directories.iter().filter(is_whole).cloned().collect();
        let held = HeldDirectories::default();
        let times = DirectoryTimes::of(&jobs, &held).taking_back(&directories);
        undone.left = take_back_jobs(&mut journal, id, jobs, (was_applied, &times), options)?;
        let is_back = |change: &&FileChange| {
            !undone.skipped.iter().any(|skipped| change.paths().contains(&skipped.path))
        };
        drop_asides(story.changes.iter().filter(is_back))?;
        times.give_back();
        let skipped = undone.skipped.iter().map(|changed| changed.path.clone()).collect();
        journal.add([JournalRecord::Undone { skipped }])?;
        journal.sync()?;
    }
    Ok(undone)
}

/// Why a file cannot be taken back now, as it is told of one that has changed.
fn obstacle((path, error): (PathBuf, Error)) -> Changed {
    let reason = match error {
        Error::Refused { path: of, reason } if of == path => reason,
        error => format!("cannot be taken back: {error}"),
    };
    Changed { path, reason, by: None }
}

/// Takes back what an application did before it failed.
pub(crate) fn take_back(
    journal: &mut Journal,
    id: &str,
    changes: &[FileChange],
    options: &Options,
) -> Result<(), Error> {
    let (jobs, changed) = inverse_jobs(changes, journal.directory(), false, options)?;
    if !changed.is_empty() {
        return Err(Error::Changed { changed });
    }
    // Whoever applied knows what the times of directories were.
    let times = DirectoryTimes::default();
    take_back_jobs(journal, id, jobs, (false, &times), options)?;
    drop_asides(changes.iter())
}

/// Removes the other names of files that have their own again.
fn drop_asides<'a>(changes: impl Iterator<Item = &'a FileChange>) -> Result<(), Error> {
    let asides: Vec<_> = changes.filter_map(FileChange::aside).collect();
    work::clean(asides.iter().map(PathBuf::as_path))
}

/// Does jobs that take back changes; gives the directories back that are not empty.
fn take_back_jobs(
    journal: &mut Journal,
    id: &str,
    mut jobs: Vec<FileWork>,
    (was_applied, times): (bool, &DirectoryTimes),
    options: &Options,
) -> Result<Vec<PathBuf>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    work::name_temporaries(&mut jobs, id)?;
    let paths = jobs.iter().flat_map(|job| job.temporaries.clone()).collect();
    journal.add([JournalRecord::Undoing, JournalRecord::Temporaries { paths }])?;
    journal.sync()?;
    let litter = |jobs: &[FileWork]| {
        let paths: Vec<_> = jobs.iter().flat_map(|job| job.temporaries.clone()).collect();
        work::clean(paths.iter().map(PathBuf::as_path))
    };
    if let Err(failure) = new_files::write(&mut jobs, times, options) {
        // Nothing has been taken back. If this fails as well, a later becalm tidies up.
        if litter(&jobs).is_ok() && was_applied {
            times.give_all_back();
            let _ = journal.add([JournalRecord::Applied]).and_then(|()| journal.sync());
        }
        return Err(failure);
    }
    work::commit(&jobs, times, options).inspect_err(|_| drop(litter(&jobs)))
}

/// The jobs that take changes back, the last first, and what has changed since.
fn inverse_jobs(
    changes: &[FileChange],
    directory: &Path,
    ended: bool,
    options: &Options,
) -> Result<(Vec<FileWork<'static>>, Vec<Changed>), Error> {
    let looks = pool::each(options.threads, changes, |_, change| look::look(change, ended))?;
    let (mut jobs, mut changed) = (Vec::new(), Vec::new());
    for found in looks {
        match found {
            FoundState::Before => {}
            FoundState::Other(path, reason) => changed.push(Changed { path, reason, by: None }),
            FoundState::After(change, stamps) => {
                if let Some((path, aside)) = without_aside(&change) {
                    let reason = format!("cannot be given back: {} is gone", aside.display());
                    changed.push(Changed { path, reason, by: None });
                    continue;
                }
                let content = content_of(&change, directory);
                jobs.push(FileWork::new(change.inverse(), stamps, content));
            }
        }
    }
    jobs.reverse();
    Ok((jobs, changed))
}

/// A file whose other name, by which what it was is kept, somebody has taken away.
fn without_aside(change: &FileChange) -> Option<(PathBuf, PathBuf)> {
    let aside = change.aside()?;
    let is_gone = |error: std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    aside.symlink_metadata().is_err_and(is_gone).then_some(())?;
    Some((change.path().to_owned(), aside))
}

/// Where the content is of a file that is to be put back.
fn content_of(change: &FileChange, directory: &Path) -> NewContent<'static> {
    if let Some(aside) = change.aside() {
        return NewContent::Aside(aside);
    }
    if let Some(item) = change.removed()
        && let ItemKind::File { kept: Some(number), .. } = item.thing
    {
        return NewContent::File(journal::kept(directory, number));
    }
    NewContent::Nowhere
}

/// Says of each file which later application changed it, where there is one.
fn by_whom(mut changed: Vec<Changed>, story: &Story, state: &Path) -> Vec<Changed> {
    if changed.is_empty() {
        return changed;
    }
    let directories = state::journal_directories(state).unwrap_or_default();
    let later = directories.iter().skip_while(|directory| **directory != story.directory).skip(1);
    for later in later.filter_map(|directory| Story::read(directory).ok()) {
        if matches!(later.status, JournalStage::Undone { .. }) {
            continue;
        }
        let paths: Vec<_> = later.changes.iter().flat_map(FileChange::paths).collect();
        for changed in changed.iter_mut().filter(|changed| paths.contains(&&changed.path)) {
            changed.reason = match later.status {
                JournalStage::Forgotten => format!(
                    "has changed since, by {}, which cannot be undone: it was forgotten",
                    later.id
                ),
                _ => format!("has changed since, by {}; undo that first", later.id),
            };
            changed.by = Some(later.id.clone());
        }
    }
    changed
}
