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
use std::path::{Path, PathBuf};

use recording::ByteUnits;

use crate::change::{Item, ItemKind, Version};
use crate::check::Obstacle;
use crate::clean::clean;
use crate::directory_times::DirectoryTimes;
use crate::held::HeldDirectory;
use crate::held_directories::HeldDirectories;
use crate::journal::{self, Journal, JournalRecord, JournalStage, SCHEMA, Story};
use crate::stamp::FileStamp;
use crate::work::{self, FileWork, OnFailure};
use crate::{
    Changed, CheckedFiles, Error, Options, Plan, Seen, Tally, new_files, pool, rewrite, state, undo,
};

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
    let jobs = crate::check::jobs(plan, options)?;
    Ok(Tally::of(jobs.iter().map(|job| &job.change)))
}

/// The steps of a plan that could not be done now, each with the reason: what [`apply`] asks, of
/// every step. Writes nothing. A step may be an obstacle because another is.
pub fn obstacles(plan: &Plan, options: &Options) -> Vec<Obstacle> {
    crate::check::checked(plan, options).obstacles
}

/// Applies a plan. It stays applied, and can be undone, even if the power fails right after.
///
/// # Errors
/// If the plan does not fit the files, a file cannot be replaced with all that it has, or a system
/// call fails. All files are then as they were, but after [`Error::Interrupted`].
pub fn apply(plan: &Plan, options: &Options) -> Result<Applied, Error> {
    let own = CheckedFiles::default();
    let known = options.checked.unwrap_or(&own);
    let options = &Options { state: options.state.clone(), checked: Some(known), ..*options };
    let locked = state::lock(options)?;
    sweep(&options.state)?;
    let mut jobs = crate::check::jobs(plan, options)?;
    if jobs.is_empty() {
        return Err(Error::Empty);
    }
    options.may_go_on()?;
    let (id, directory) = locked.new_journal()?;
    let changed = Tally::of(jobs.iter().map(|job| &job.change));
    let mut times = DirectoryTimes::default();
    let journal = begin(&directory, &id, &plan.title, &mut jobs, options.large);
    let journal = journal.and_then(|journal| {
        times = DirectoryTimes::of(&jobs, known.held());
        prepare(journal, plan, &mut jobs, &times, options)
    });
    let journal = journal.map_err(|failure| give_up(failure, &directory, &jobs, &times))?;
    let Some(failed) = finish(journal, &id, &jobs, &times, options)? else {
        return Ok(Applied { id, changed });
    };
    let FailedApplication { failure, mut journal, stays } = failed;
    let told = match stays.is_empty() {
        true => journal.remove(),
        false => {
            // All but that is taken back; what becomes of the rest is not becalm's.
            let skipped = stays.iter().map(|stays| stays.path.clone()).collect();
            let told = journal.add([JournalRecord::Undone { skipped }, JournalRecord::Undoing]);
            told.and_then(|()| journal.sync())
        }
    };
    Err(match told {
        Ok(()) if stays.is_empty() => failure,
        Ok(()) => in_part(failure, stays, &directory),
        Err(second) => interrupted(failure, second, &directory),
    })
}

/// Applies one more plan under an id that is applied: it is undone with it. No path may be changed
/// by both.
///
/// # Errors
/// Those of [`apply`], and if it is not applied now. What was applied before stays so.
pub fn extend(id: &str, plan: &Plan, options: &Options) -> Result<Applied, Error> {
    let directory = state::journal_directory(&options.state, id)?;
    let _locked = state::lock(options)?;
    let story = Story::read_applied(&directory)?;
    let done = &story.changes;
    let mut jobs = crate::check::jobs_after(plan, done, options)?;
    if jobs.is_empty() {
        return Err(Error::Empty);
    }
    let changed = Tally::of(jobs.iter().map(|job| &job.change));
    let mut journal = Journal::resume(&story)?;
    name(&mut jobs, id, options.large)?;
    let told = journal.add([JournalRecord::Extending, temporaries(&jobs)]);
    told.and_then(|()| journal.sync())?;
    let held = HeldDirectories::default();
    let times = DirectoryTimes::of(&jobs, &held);
    let (failure, mut stays) = match prepare(journal, plan, &mut jobs, &times, options) {
        Ok(journal) => match finish(journal, id, &jobs, &times, options)? {
            None => return Ok(Applied { id: id.to_owned(), changed }),
            Some(FailedApplication { failure, stays, .. }) => (failure, stays),
        },
        Err(failure) => (failure, Vec::new()),
    };
    if stays.is_empty() {
        stays = clean_up(&jobs, &times);
    }
    if !stays.is_empty() {
        return Err(in_part(failure, stays, &directory));
    }
    times.give_all_back();
    let told = Story::read(&directory).and_then(|story| Journal::resume(&story));
    let told = told.and_then(|mut journal| {
        // What was added is taken back: it is as before.
        journal.add([JournalRecord::Undoing, JournalRecord::Applied])?;
        journal.sync()
    });
    Err(match told {
        Ok(()) => failure,
        Err(second) => interrupted(failure, second, &directory),
    })
}

/// Step 2.
fn begin(
    directory: &Path,
    id: &str,
    title: &str,
    jobs: &mut [FileWork],
    large: ByteUnits,
) -> Result<Journal, Error> {
    name(jobs, id, large)?;
    let mut journal = Journal::begin(directory.to_owned())?;
    let (id, title) = (id.to_owned(), title.to_owned());
    journal.add([
        JournalRecord::Begin { schema: SCHEMA.to_owned(), id, title, at: state::now() },
        temporaries(jobs),
    ])?;
    journal.sync()?;
    Ok(journal)
}

fn name(jobs: &mut [FileWork], id: &str, large: ByteUnits) -> Result<(), Error> {
    work::name_temporaries(jobs, id)?;
    work::name_asides(jobs, id, large)
}

fn temporaries(jobs: &[FileWork]) -> JournalRecord {
    JournalRecord::Temporaries { paths: jobs.iter().flat_map(FileWork::litter).collect() }
}

/// Steps 3 and 4.
fn prepare(
    mut journal: Journal,
    plan: &Plan,
    jobs: &mut [FileWork],
    directories: &DirectoryTimes,
    options: &Options,
) -> Result<Journal, Error> {
    keep_what_is_removed(jobs, journal.directory(), directories, options)?;
    new_files::write(jobs, directories, options)?;
    crate::check::what_it_relies_on(plan)?;
    let change = |job: &FileWork| JournalRecord::Change(Box::new(job.change.clone()));
    journal.add_each(jobs, options.threads, change)?;
    let paths = plan.relied_on();
    let relies = (!paths.is_empty()).then_some(JournalRecord::Relies { paths });
    journal.add(relies.into_iter().chain([JournalRecord::Ready]))?;
    journal.reserve(room_for_an_end(jobs));
    journal.sync()?;
    journal.mark_ready()?;
    Ok(journal)
}

/// How what is about to be removed or replaced is kept.
enum KeptContent {
    /// As a copy in the journal's directory.
    Copied(Version),
    /// By another name, which changed what stat(2) says of it.
    Beside(FileStamp, Seen),
}

/// Keeps each file that is about to be removed or replaced.
fn keep_what_is_removed(
    jobs: &mut [FileWork],
    directory: &Path,
    times: &DirectoryTimes,
    options: &Options,
) -> Result<(), Error> {
    let is_file = |item: &Item| matches!(item.thing, ItemKind::File { .. });
    let removed = jobs.iter_mut().filter(|job| job.change.removed().is_some_and(is_file));
    let mut removed: Vec<_> = removed.collect();
    if removed.is_empty() {
        return Ok(());
    }
    let copies = journal::all_kept(directory);
    state::make_directory(&copies)?;
    let all = pool::each(options.threads, &removed, |_, job| {
        options.may_go_on()?;
        let Some(item) = job.change.removed() else { return Ok(None) };
        let ItemKind::File { kept: Some(number), .. } = item.thing else { return Ok(None) };
        match item.aside().map(|aside| beside(job, &item.path, &aside, times)) {
            Some(Ok(kept)) => Ok(Some(kept)),
            // A filesystem without hard links.
            _ => keep(job, &item.path, &journal::kept(directory, number)).map(Some),
        }
    })?;
    for (job, how) in removed.iter_mut().zip(all) {
        let Some(item) = job.change.removed_mut() else { continue };
        let ItemKind::File { version, kept, seen, aside, .. } = &mut item.thing else { continue };
        match how {
            Some(KeptContent::Copied(read)) => (*version, *aside) = (read, None),
            Some(KeptContent::Beside(stamp, found)) => {
                (*kept, *seen) = (None, Some(found));
                job.stamps = vec![stamp];
            }
            None => {}
        }
    }
    journal::sync_directory(&copies)
}

fn beside(
    job: &FileWork,
    path: &Path,
    aside: &Path,
    times: &DirectoryTimes,
) -> Result<KeptContent, Error> {
    let directory = times.directory(path)?;
    let change = times.changing(path, &directory);
    directory.link(path, &directory, aside)?;
    change.made();
    let stamp = directory.stamp(aside)?;
    match job.stamps.first().is_some_and(|seen| seen.same_content(&stamp)) {
        true => Ok(KeptContent::Beside(stamp, stamp.seen())),
        false => Err(work::changed(path)),
    }
}

fn keep(job: &FileWork, path: &Path, copy: &Path) -> Result<KeptContent, Error> {
    let source = HeldDirectory::of(path)?.read(path)?;
    let found = source.metadata().map_err(|error| Error::at("fstat", path, error))?;
    if !job.stamps.first().is_some_and(|seen| seen.same_content(&FileStamp::of(&found))) {
        return Err(work::changed(path));
    }
    let failed = |error| Error::at("copy to", copy, error);
    let target = File::options().write(true).create_new(true).open(copy).map_err(failed)?;
    let version = rewrite::copy(&source, &target).map_err(|failure| failure.at(path, copy))?;
    target.sync_all().map_err(failed)?;
    Ok(KeptContent::Copied(version))
}

/// What the records of an undoing take, roughly.
fn room_for_an_end(jobs: &[FileWork]) -> u64 {
    let paths = jobs.iter().flat_map(|job| job.change.paths());
    4096 + paths.map(|path| 3 * path.as_os_str().len() as u64 + 256).sum::<u64>()
}

/// Removes what was written beside files, and what stays of it.
fn clean_up(jobs: &[FileWork], times: &DirectoryTimes) -> Vec<Changed> {
    let litter: Vec<_> = jobs.iter().flat_map(FileWork::litter).collect();
    clean(litter.iter().map(PathBuf::as_path), times)
}

/// After a failure before the first rename: removes what was written so far.
fn give_up(failure: Error, directory: &Path, jobs: &[FileWork], times: &DirectoryTimes) -> Error {
    let stays = clean_up(jobs, times);
    times.give_all_back();
    // The journal stays where litter does: it has its names.
    if !stays.is_empty() {
        return in_part(failure, stays, directory);
    }
    match fs::remove_dir_all(directory) {
        Ok(()) => failure,
        Err(error) => interrupted(failure, Error::at("remove", directory, error), directory),
    }
}

/// An application that was taken back, as far as it could be.
struct FailedApplication {
    failure: Error,
    journal: Journal,
    /// What could not be taken back, and why.
    stays: Vec<Changed>,
}

/// Steps 5 and 6. If they fail, everything is taken back.
fn finish(
    mut journal: Journal,
    id: &str,
    jobs: &[FileWork],
    times: &DirectoryTimes,
    options: &Options,
) -> Result<Option<FailedApplication>, Error> {
    let done = work::commit(jobs, times, OnFailure::Stop, options).and_then(|_| {
        let changed = times.changed();
        let directories = (!changed.is_empty()).then_some(JournalRecord::Directories { changed });
        journal.add(directories.into_iter().chain([JournalRecord::Applied]))?;
        journal.sync()
    });
    let Err(failure) = done else { return Ok(None) };
    let temporaries = jobs.iter().flat_map(|job| &job.temporaries).map(|path| path.as_path());
    let mut stays = clean(temporaries, times);
    match undo::take_back(&mut journal, id, jobs, times, options) {
        Ok(more) => stays.extend(more),
        Err(second) => return Err(interrupted(failure, second, journal.directory())),
    }
    times.give_all_back();
    Ok(Some(FailedApplication { failure, journal, stays }))
}

fn interrupted(failure: Error, second: Error, directory: &Path) -> Error {
    Error::Interrupted {
        id: id_of(directory),
        failure: Box::new(failure),
        second: Box::new(second),
    }
}

/// All is as it was but for what stays.
fn in_part(failure: Error, stays: Vec<Changed>, directory: &Path) -> Error {
    Error::PartlyTakenBack { id: id_of(directory), failure: Box::new(failure), stays }
}

fn id_of(directory: &Path) -> String {
    directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Removes what earlier, interrupted applications left beside files. What stays of it keeps nothing from
/// being applied: to undo that one says what it is.
fn sweep(state: &Path) -> Result<(), Error> {
    for directory in state::journal_directories(state)? {
        if journal::says_it_ended(&directory) {
            continue;
        }
        // One that is damaged is left to `becalm undo`, which says so.
        if let Ok(story) = Story::read(&directory)
            && story.status == JournalStage::Open
        {
            clean(story.litter(), &DirectoryTimes::default());
        }
    }
    Ok(())
}
