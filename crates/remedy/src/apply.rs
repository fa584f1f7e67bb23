//! Applies a plan: all of it, or nothing.
//!
//! 1. Check everything, before anything is written.
//! 2. Journal: what is begun, and the names of the temporaries.
//! 3. Write every new file beside its target.
//! 4. Journal: every change, with all that undoing it needs; then that renaming may begin.
//! 5. Rename.
//! 6. Journal: applied.
//!
//! After each of 2 to 6, all is on the disk before the next begins. Until 4 is done no user's file
//! has changed. Between 4 and 6 each is old or new; the journal tells how to get all of them back.

use std::fs::{self, File};
use std::path::Path;

use crate::change::{Item, ItemKind, Version};
use crate::check::Obstacle;
use crate::held::HeldDirectory;
use crate::journal::{self, Journal, JournalRecord, JournalStage, SCHEMA, Story};
use crate::stamp::FileStamp;
use crate::work::{self, FileWork};
use crate::{Error, Options, Plan, Tally, pool, rewrite, state, undo};

/// What was applied.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Applied {
    /// Under which id it can be undone.
    pub id: String,
    /// How much was changed.
    pub changed: Tally,
}

/// Whether a plan could be applied now, and how much it would change. Writes nothing.
///
/// # Errors
/// Why it could not: the first reason.
pub fn check(plan: &Plan, options: &Options) -> Result<Tally, Error> {
    state::can_be_written(&options.state)?;
    let jobs = crate::check::jobs(plan, &options.state, options.threads)?;
    Ok(Tally::of(jobs.iter().map(|job| &job.change)))
}

/// The steps of a plan that could not be done now, each with the reason: what [`apply`] asks, of
/// every step. Writes nothing. A step may be an obstacle because another is.
pub fn obstacles(plan: &Plan, options: &Options) -> Vec<Obstacle> {
    crate::check::checked(plan, &options.state, options.threads).obstacles
}

/// Applies a plan. It stays applied, and can be undone, even if the power fails right after.
///
/// # Errors
/// If the plan does not fit the files, a file cannot be replaced with all that it has, or a system
/// call fails. All files are then as they were, but after [`Error::Interrupted`].
pub fn apply(plan: &Plan, options: &Options) -> Result<Applied, Error> {
    let locked = state::lock(&options.state)?;
    sweep(&options.state)?;
    let mut jobs = crate::check::jobs(plan, &options.state, options.threads)?;
    if jobs.is_empty() {
        return Err(Error::Empty);
    }
    let (id, directory) = locked.new_journal()?;
    let changed = Tally::of(jobs.iter().map(|job| &job.change));
    let journal = prepare(&directory, &id, &plan.title, &mut jobs, options);
    let journal = journal.map_err(|failure| give_up(failure, &directory, &jobs))?;
    finish(journal, &id, &jobs, options)?;
    Ok(Applied { id, changed })
}

/// Steps 2 to 4.
fn prepare(
    directory: &Path,
    id: &str,
    title: &str,
    jobs: &mut [FileWork],
    options: &Options,
) -> Result<Journal, Error> {
    work::name_temporaries(jobs, id)?;
    let mut journal = Journal::begin(directory.to_owned())?;
    let (id, title) = (id.to_owned(), title.to_owned());
    let paths = jobs.iter().flat_map(|job| job.temporaries.clone()).collect();
    journal.add(&[
        JournalRecord::Begin { schema: SCHEMA.to_owned(), id, title, at: state::now() },
        JournalRecord::Temporaries { paths },
    ])?;
    journal.sync()?;
    keep_what_is_removed(jobs, directory, options)?;
    work::write(jobs, options)?;
    let changes = jobs.iter().map(|job| JournalRecord::Change(job.change.clone()));
    journal.add(&changes.chain([JournalRecord::Ready]).collect::<Vec<_>>())?;
    journal.reserve(room_for_an_end(jobs));
    journal.sync()?;
    journal.mark_ready()?;
    Ok(journal)
}

/// Copies each file that is about to be removed or replaced into the journal's directory.
fn keep_what_is_removed(
    jobs: &mut [FileWork],
    directory: &Path,
    options: &Options,
) -> Result<(), Error> {
    let is_file = |item: &Item| matches!(item.thing, ItemKind::File { .. });
    let removed = jobs.iter_mut().filter(|job| job.change.removed().is_some_and(is_file));
    let mut removed: Vec<_> = removed.collect();
    if removed.is_empty() {
        return Ok(());
    }
    let kept = directory.join("kept");
    state::make_directory(&kept)?;
    let versions = pool::each(options.threads, &removed, |_, job| {
        let Some(item) = job.change.removed() else { return Ok(None) };
        let ItemKind::File { kept: Some(number), .. } = item.thing else { return Ok(None) };
        keep(job, &item.path, &journal::kept(directory, number)).map(Some)
    })?;
    for (job, read) in removed.iter_mut().zip(versions) {
        if let (Some(item), Some(read)) = (job.change.removed_mut(), read)
            && let ItemKind::File { version, .. } = &mut item.thing
        {
            *version = read;
        }
    }
    journal::sync_directory(&kept)
}

fn keep(job: &FileWork, path: &Path, copy: &Path) -> Result<Version, Error> {
    let source = HeldDirectory::of(path)?.read(path)?;
    let found = source.metadata().map_err(|error| Error::at("fstat", path, error))?;
    if job.stamps.first() != Some(&FileStamp::of(&found)) {
        return Err(work::changed(path));
    }
    let failed = |error| Error::at("copy to", copy, error);
    let target = File::options().write(true).create_new(true).open(copy).map_err(failed)?;
    let version = rewrite::copy(&source, &target).map_err(|failure| failure.at(path, copy))?;
    target.sync_all().map_err(failed)?;
    Ok(version)
}

/// What the records of an undoing take, roughly.
fn room_for_an_end(jobs: &[FileWork]) -> u64 {
    let paths = jobs.iter().flat_map(|job| job.change.paths());
    4096 + paths.map(|path| 2 * path.as_os_str().len() as u64 + 128).sum::<u64>()
}

/// After a failure before the first rename: removes what was written so far.
fn give_up(failure: Error, directory: &Path, jobs: &[FileWork]) -> Error {
    let litter = jobs.iter().flat_map(|job| &job.temporaries).map(|path| path.as_path());
    // The journal stays where litter does: it has its names.
    let cleaned = work::clean(litter).and_then(|()| {
        fs::remove_dir_all(directory).map_err(|error| Error::at("remove", directory, error))
    });
    match cleaned {
        Ok(()) => failure,
        Err(second) => interrupted(failure, second, directory),
    }
}

/// Steps 5 and 6. If they fail, everything is taken back.
fn finish(
    mut journal: Journal,
    id: &str,
    jobs: &[FileWork],
    options: &Options,
) -> Result<(), Error> {
    let done = work::commit(jobs, options).and_then(|_| {
        journal.add(&[JournalRecord::Applied])?;
        journal.sync()
    });
    let Err(failure) = done else { return Ok(()) };
    let directory = journal.directory().to_owned();
    let litter = jobs.iter().flat_map(|job| &job.temporaries).map(|path| path.as_path());
    let changes: Vec<_> = jobs.iter().map(|job| job.change.clone()).collect();
    let taken_back = work::clean(litter)
        .and_then(|()| undo::take_back(&mut journal, id, &changes, options))
        .and_then(|()| journal.remove());
    match taken_back {
        Ok(()) => Err(failure),
        Err(second) => Err(interrupted(failure, second, &directory)),
    }
}

fn interrupted(failure: Error, second: Error, directory: &Path) -> Error {
    let id = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Error::Interrupted { id, failure: Box::new(failure), second: Box::new(second) }
}

/// Removes what earlier, interrupted applications left beside files.
fn sweep(state: &Path) -> Result<(), Error> {
    for directory in state::journal_directories(state)? {
        if journal::says_it_ended(&directory) {
            continue;
        }
        // One that is damaged is left to `becalm undo`, which says so.
        if let Ok(story) = Story::read(&directory)
            && story.status == JournalStage::Open
        {
            work::clean(story.litter())?;
        }
    }
    Ok(())
}
