//! Takes back what was applied: byte for byte, and only where nothing else has changed since.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::change::{FileChange, ItemKind, Turn};
use crate::clean::clean;
use crate::content::NewContent;
use crate::directory_times::{ChangedDirectory, DirectoryTimes};
use crate::held_directories::{self, HeldDirectories};
use crate::journal::{self, Journal, JournalRecord, JournalStage, Story};
use crate::look::{self, FoundState, GONE_WITH_ALL};
use crate::relying::hold_for_others;
use crate::work::{self, FileWork, OnFailure};
use crate::{Changed, Error, Options, Tally, check, new_files, pool, state};

/// How to undo.
#[derive(Clone, Copy, Debug, Default)]
pub struct UndoOptions {
    /// Leave what has changed since, or cannot be taken back now, as it is, and take back the rest.
    pub skip_changed: bool,
    /// Where a file is left as it is, leave what was added, too: it may need that. What is in pieces already is
    /// undone so, unless the first is asked for alone.
    pub keep_needed: bool,
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
    /// Each path that is as before again: first those that were there before, then what was added.
    #[serde(with = "crate::text::paths")]
    #[schemars(with = "Vec<crate::text::TextForm>")]
    pub paths: Vec<PathBuf>,
    /// What has changed since, or cannot be taken back now, and was left as it is.
    pub skipped: Vec<Changed>,
    /// Directories that becalm had made and that are not empty: they stay.
    #[serde(with = "crate::text::paths")]
    #[schemars(with = "Vec<crate::text::TextForm>")]
    pub left: Vec<PathBuf>,
}

/// Undoes what was applied under an id, or finishes what was interrupted.
///
/// What is applied as a whole is undone as a whole, unless that is not asked for. What is in pieces already,
/// because applying or undoing it was interrupted, is undone as far as it can be: what stays, and why, is in
/// [`Undone::skipped`].
///
/// # Errors
/// If files have changed since or cannot be taken back now (all of them are in
/// [`Error::Changed`]; a dry run asks, too), if nothing but room for them is missing
/// ([`Error::NoRoom`]), or a system call fails that concerns all of them.
/// After a failure in the midst of it, each file is as before or as after the application, and the
/// same undo can be tried again.
pub fn undo(id: &str, options: &Options, how: UndoOptions) -> Result<Undone, Error> {
    let directory = state::journal_directory(&options.state, id)?;
    let _locked = if how.dry_run { None } else { Some(state::lock(options)?) };
    let story = Story::read(&directory)?;
    if matches!(&story.status, JournalStage::Undone { skipped } if skipped.is_empty()) {
        return Err(Error::Undone { id: id.to_owned() });
    }
    if story.status == JournalStage::Forgotten {
        return Err(Error::Forgotten { id: id.to_owned() });
    }
    let is_whole = story.status == JournalStage::Applied;
    // First: a name that goes changes the change time of what has others.
    let litter = match how.dry_run {
        true => Vec::new(),
        false => clean(story.litter(), &DirectoryTimes::default()),
    };
    let due: Vec<_> = story.due().cloned().collect();
    held_directories::make_room_for(due.len());
    let (mut jobs, changed) = inverse_jobs(&due, &directory, is_whole, options)?;
    let untouched = jobs.is_empty() && changed.is_empty();
    if !story.ready && !untouched {
        // Files have been renamed, and the journal that says so has been cut since.
        return Err(Error::Damaged { path: directory.join("journal"), at: story.whole_until });
    }
    let relied = hold_for_others(&mut jobs, &story, &options.state);
    let (mut jobs, mut obstacles) = check::possible(jobs, options.threads);
    let mut skipped = by_whom(changed, &story, &options.state);
    skipped.extend(relied);
    skipped.extend(litter);
    let is_of_room = |(_, error): &(PathBuf, Error)| matches!(error, Error::NoRoom { .. });
    if !how.skip_changed && skipped.is_empty() && obstacles.iter().all(is_of_room) {
        // Each file that is on a full filesystem would say the same of it.
        obstacles.pop().map_or(Ok(()), |(_, error)| Err(error))?;
    }
    skipped.extend(obstacles.into_iter().map(|(path, error)| error.of_one(&path)));
    if !skipped.is_empty() && is_whole && !how.skip_changed {
        return Err(Error::Changed { changed: skipped });
    }
    if how.keep_needed || !how.skip_changed {
        skipped.extend(hold_back(&mut jobs, &skipped, &due));
    }
    let mut undone = Undone {
        id: id.to_owned(),
        title: story.title.clone(),
        restored: restored(&jobs),
        paths: restored_paths(&jobs),
        skipped,
        left: Vec::new(),
    };
    if !how.dry_run {
        take_story_back(&story, &mut undone, (&due, jobs), options)?;
    }
    Ok(undone)
}

/// Takes jobs back, and says in the journal what has come of it.
fn take_story_back(
    story: &Story,
    undone: &mut Undone,
    (due, jobs): (&[FileChange], Vec<FileWork>),
    options: &Options,
) -> Result<(), Error> {
    let mut journal = Journal::resume(story)?;
    let is_whole = |directory: &&ChangedDirectory| {
        let mut skipped = undone.skipped.iter().map(|changed| work::directory_of(&changed.path));
        !skipped.any(|skipped| skipped == directory.path)
    };
    let directories: Vec<_> = story.directories.iter().filter(is_whole).cloned().collect();
    let held = HeldDirectories::default();
    let times = DirectoryTimes::of(&jobs, &held).taking_back(&directories);
    let was_applied = story.status == JournalStage::Applied;
    let back = take_back_jobs(&mut journal, &story.id, jobs, (was_applied, &times), options)?;
    (undone.restored, undone.paths, undone.left) = (back.restored, back.paths, back.left);
    undone.skipped.extend(back.stays);
    let is_back =
        |change: &&FileChange| !undone.skipped.iter().any(|it| concerns(&it.path, change));
    let asides = drop_asides(due.iter().filter(is_back), &times);
    undone.skipped.extend(asides);
    times.give_back();
    let skipped = undone.skipped.iter().map(|changed| changed.path.clone()).collect();
    journal.add([JournalRecord::Undone { skipped }])?;
    journal.sync()
}

/// How much is taken back by jobs.
fn restored(jobs: &[FileWork]) -> Tally {
    Tally::of(jobs.iter().map(|job| job.change.inverse()).collect::<Vec<_>>().iter())
}

/// The paths of what is taken back by jobs, what goes last.
fn restored_paths(jobs: &[FileWork]) -> Vec<PathBuf> {
    let (gone, back): (Vec<_>, Vec<_>) = jobs.iter().partition(|job| job.change.turn().removes());
    let sorted = |jobs: Vec<&FileWork>| {
        let mut paths: Vec<_> = jobs.iter().flat_map(|job| job.change.paths().to_vec()).collect();
        paths.sort_unstable();
        paths
    };
    [sorted(back), sorted(gone)].concat()
}

/// Whether what is told of a path is told of a change: it is one of its paths, or of the directory that it is in.
fn concerns(path: &Path, change: &FileChange) -> bool {
    change.paths().iter().any(|changed| changed.starts_with(path))
}

/// Where files stay changed, what was added for them stays, too: takes it out of the jobs, and says so.
fn hold_back(
    jobs: &mut Vec<FileWork>,
    skipped: &[Changed],
    changes: &[FileChange],
) -> Vec<Changed> {
    let patched = changes.iter().filter(|change| change.turn() == Turn::Patch);
    let patched: BTreeSet<&PathBuf> = patched.flat_map(FileChange::paths).collect();
    let stays = skipped.iter().find(|skipped| patched.contains(&skipped.path));
    let Some(stays) = stays else { return Vec::new() };
    let (kept, made): (Vec<_>, Vec<_>) =
        std::mem::take(jobs).into_iter().partition(|job| job.change.turn().removes());
    *jobs = made;
    work::may_need(&stays.path, kept.iter().map(|job| &job.change))
}

/// Takes back what an application did before it failed, as far as it can be; what stays, and why. What it
/// had not begun is as it was, whatever others have made of it.
pub(crate) fn take_back(
    journal: &mut Journal,
    id: &str,
    done: &[FileWork],
    times: &DirectoryTimes,
    options: &Options,
) -> Result<Vec<Changed>, Error> {
    let begun: Vec<_> =
        done.iter().filter(|job| job.is_begun()).map(|job| job.change.clone()).collect();
    let options = &options.to_the_end();
    let (mut jobs, mut stays) = inverse_jobs(&begun, journal.directory(), false, options)?;
    stays.extend(hold_back(&mut jobs, &stays, &begun));
    let back = take_back_jobs(journal, id, jobs, (false, times), options)?;
    stays.extend(back.stays);
    let is_back = |change: &&FileChange| !stays.iter().any(|it| concerns(&it.path, change));
    let all: Vec<_> = done.iter().map(|job| job.change.clone()).collect();
    let asides = drop_asides(all.iter().filter(is_back), times);
    stays.extend(asides);
    Ok(stays)
}

/// Removes the other names of files that have their own again; what stays.
fn drop_asides<'a>(
    changes: impl Iterator<Item = &'a FileChange>,
    held: &DirectoryTimes,
) -> Vec<Changed> {
    let asides: Vec<_> = changes.filter_map(FileChange::aside).collect();
    clean(asides.iter().map(PathBuf::as_path), held)
}

/// What has been taken back.
#[derive(Default)]
struct TakenBack {
    restored: Tally,
    paths: Vec<PathBuf>,
    /// Directories that are not empty.
    left: Vec<PathBuf>,
    /// What could not be taken back.
    stays: Vec<Changed>,
}

/// Does jobs that take back changes, as far as they can be done. Where all was applied, and a new file cannot
/// be written, none is.
fn take_back_jobs(
    journal: &mut Journal,
    id: &str,
    mut jobs: Vec<FileWork>,
    (was_applied, times): (bool, &DirectoryTimes),
    options: &Options,
) -> Result<TakenBack, Error> {
    if jobs.is_empty() {
        return Ok(TakenBack::default());
    }
    work::name_temporaries(&mut jobs, id)?;
    let paths = jobs.iter().flat_map(|job| job.temporaries.clone()).collect();
    journal.add([JournalRecord::Undoing, JournalRecord::Temporaries { paths }])?;
    journal.sync()?;
    let mut stays = match was_applied {
        true => match new_files::write(&mut jobs, times, options) {
            Ok(()) => Vec::new(),
            Err(failure) => {
                // Nothing has been taken back. If this fails as well, a later becalm tidies up.
                if remove_temporaries(&jobs, times).is_empty() {
                    times.give_all_back();
                    let _ = journal.add([JournalRecord::Applied]).and_then(|()| journal.sync());
                }
                return Err(failure);
            }
        },
        false => match write_possible(&mut jobs, times, options) {
            Ok(stays) => stays,
            Err(failure) => {
                remove_temporaries(&jobs, times);
                times.give_all_back();
                return Err(failure);
            }
        },
    };
    let committed = work::commit(&jobs, times, OnFailure::GoOn, options);
    let committed = committed.inspect_err(|_| drop(remove_temporaries(&jobs, times)))?;
    if !committed.stays.is_empty() {
        stays.extend(remove_temporaries(&jobs, times));
    }
    jobs.retain(|job| !committed.stays.iter().any(|it| concerns(&it.path, &job.change)));
    stays.extend(committed.stays);
    let (restored, paths) = (restored(&jobs), restored_paths(&jobs));
    let paths = paths.into_iter().filter(|path| !committed.left.contains(path)).collect();
    Ok(TakenBack { restored, paths, left: committed.left, stays })
}

/// Writes what new files can be written; what stays for want of one.
fn write_possible(
    jobs: &mut Vec<FileWork>,
    times: &DirectoryTimes,
    options: &Options,
) -> Result<Vec<Changed>, Error> {
    let (failed, mut stays): (Vec<_>, Vec<_>) =
        new_files::write_possible(jobs, times, options)?.into_iter().unzip();
    let changes: Vec<_> = failed.iter().map(|job: &FileWork| job.change.clone()).collect();
    stays.extend(hold_back(jobs, &stays, &changes));
    stays.extend(remove_temporaries(&failed, times));
    Ok(stays)
}

/// Removes what new files still lie beside their targets.
fn remove_temporaries(jobs: &[FileWork], held: &DirectoryTimes) -> Vec<Changed> {
    clean(jobs.iter().flat_map(|job| &job.temporaries).map(PathBuf::as_path), held)
}

/// The jobs that take changes back, the last first, and what has changed since or cannot be looked at.
///
/// # Errors
/// Only if it is asked to end.
fn inverse_jobs(
    changes: &[FileChange],
    directory: &Path,
    ended: bool,
    options: &Options,
) -> Result<(Vec<FileWork<'static>>, Vec<Changed>), Error> {
    let looks = pool::each(options.threads, changes, |_, change| {
        options.may_go_on()?;
        Ok::<_, Error>(look::look(change, ended).map_err(|error| error.of_one(change.path())))
    })?;
    let (mut jobs, mut changed, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for found in looks {
        match found {
            Err(unseen) => changed.push(unseen),
            Ok(FoundState::Before) => {}
            Ok(FoundState::Other(others)) => {
                for (path, reason) in others {
                    // One directory says so of all below it.
                    if reason == GONE_WITH_ALL {
                        if gone.iter().any(|gone: &PathBuf| path.starts_with(gone)) {
                            continue;
                        }
                        gone.push(path.clone());
                    }
                    changed.push(Changed { path, reason, by: None });
                }
            }
            Ok(FoundState::After(change, stamps)) => {
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
