//! Checks a plan as a whole before anything is written, and turns it into changes.

mod item;
mod patch;
mod place;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

use crate::attributes::Who;
use crate::change::{FileChange, Turn};
use crate::held_directories::HeldDirectories;
use crate::path_map::PathMap;
use crate::work::{FileWork, directory_of};
use crate::{CheckedFiles, Error, FileState, Options, Plan, Seen, Step, pool};

/// What of a plan could not be done now.
#[derive(Debug)]
pub struct Obstacle {
    /// The step, as an index into [`Plan::steps`].
    pub step: usize,
    /// Why not.
    pub error: Error,
}

/// A plan, checked: each job with the number of its step.
#[derive(Default)]
pub(crate) struct CheckedPlan<'a> {
    jobs: Vec<(usize, FileWork<'a>)>,
    pub(crate) obstacles: Vec<Obstacle>,
    /// The directories in which names can be made, and their devices.
    devices: PathMap<u64>,
}

/// What is to be done, or why it is not: the first reason.
///
/// # Errors
/// If any file is not what the plan says, cannot be replaced with all that it has, or has no
/// room. Nothing has been written then.
pub(crate) fn jobs<'a>(plan: &'a Plan, options: &Options) -> Result<Vec<FileWork<'a>>, Error> {
    jobs_after(plan, &[], options)
}

/// The same of what is done after other changes, under one id.
pub(crate) fn jobs_after<'a>(
    plan: &'a Plan,
    done: &[FileChange],
    options: &Options,
) -> Result<Vec<FileWork<'a>>, Error> {
    let CheckedPlan { jobs, obstacles, .. } = checked(plan, options);
    if let Some(first) = obstacles.into_iter().next() {
        return Err(first.error);
    }
    let mut jobs: Vec<FileWork> = jobs.into_iter().map(|(_, job)| job).collect();
    let done_paths: PathMap<()> =
        done.iter().flat_map(FileChange::paths).map(|path| (path.clone(), ())).collect();
    let mut paths = jobs.iter().flat_map(|job| job.change.paths());
    if let Some(twice) = paths.find(|path| done_paths.contains(path)) {
        return Err(Error::refused(twice, "was changed under the same id already"));
    }
    number_kept(&mut jobs, done.len());
    Ok(jobs)
}

/// Every step by itself, then what is left of them together. Who asks what could be done, and who
/// does it, both ask here.
pub(crate) fn checked<'a>(plan: &'a Plan, options: &Options) -> CheckedPlan<'a> {
    let who = Who::am_i();
    let own = CheckedFiles::default();
    let known = options.checked.unwrap_or(&own);
    let each = |_, step: &'a Step| Ok::<_, Infallible>(job(step, &who, known));
    let found =
        pool::each(options.threads, &plan.steps, each).unwrap_or_else(|never| match never {});
    let mut checked = CheckedPlan::default();
    for (step, job) in found.into_iter().enumerate() {
        match job {
            Ok(job) => checked.jobs.extend(job.map(|job| (step, job))),
            Err(error) => checked.obstacles.push(Obstacle { step, error }),
        }
    }
    checked.each_path_is_changed_once();
    checked.each_directory_is_there();
    place::allows(&mut checked, known, &options.state, options.threads);
    checked
}

/// Of jobs that take changes back, those that could be done now; of the others, the path and why
/// not. Whether their files are as they were left, has been looked at before.
pub(crate) fn possible(
    jobs: Vec<FileWork<'_>>,
    threads: usize,
) -> (Vec<FileWork<'_>>, Vec<(PathBuf, Error)>) {
    let who = Who::am_i();
    let paths: Vec<_> = jobs.iter().map(|job| job.change.path().to_owned()).collect();
    let jobs = jobs.into_iter().enumerate().collect();
    let mut checked = CheckedPlan { jobs, ..CheckedPlan::default() };
    checked.sort_out(|job| item::can_be_changed(job, &who));
    checked.each_directory_is_there();
    place::allows_back(&mut checked, threads);
    let CheckedPlan { jobs, mut obstacles, .. } = checked;
    obstacles.sort_by_key(|obstacle| obstacle.step);
    let obstacles = obstacles.into_iter();
    (
        jobs.into_iter().map(|(_, job)| job).collect(),
        obstacles.map(|obstacle| (paths[obstacle.step].clone(), obstacle.error)).collect(),
    )
}

/// None, if there is nothing to do.
fn job<'a>(step: &'a Step, who: &Who, known: &CheckedFiles) -> Result<Option<FileWork<'a>>, Error> {
    match step {
        Step::Patch { path, also, seen, edits } => {
            patch::job((path, also), seen, edits, who, known).map(Some)
        }
        Step::Create { path, mode, content } => item::create(path, *mode, content).map(Some),
        Step::Replace { path, mode, content } => item::replace(path, *mode, content, who).map(Some),
        Step::Rewrite { path, content } => item::rewrite(path, content, who).map(Some),
        Step::Take { path, source, is_new } => item::take(path, source, *is_new, who).map(Some),
        Step::Link { path, target } => item::link(path, target).map(Some),
        Step::Directory { path, mode } => item::directory(path, *mode),
        Step::Remove { path } => item::remove(path, who).map(Some),
        Step::Rely { path, seen } => is_still(path, seen).map(|()| None),
    }
}

/// Whether the files that a plan relies on are still what was seen.
///
/// # Errors
/// If one is not.
pub(crate) fn what_it_relies_on(plan: &Plan) -> Result<(), Error> {
    plan.steps.iter().try_for_each(|step| match step {
        Step::Rely { path, seen } => is_still(path, seen),
        _ => Ok(()),
    })
}

fn is_still(path: &Path, seen: &Seen) -> Result<(), Error> {
    let now = Seen::of(path)?;
    let is_it = match seen.digest {
        // Another machine's, perhaps: the content decides.
        Some(digest) => FileState::of(path)
            .map(|state| state.digest == digest)
            .map_err(|error| Error::at("read", path, error))?,
        None => now == *seen,
    };
    match is_it {
        true => Ok(()),
        false => Err(Error::refused(path, "has changed since the plan was made, which names it")),
    }
}

/// Gives each file that is removed or replaced the number of its copy.
fn number_kept(jobs: &mut [FileWork], first: usize) {
    for (number, job) in jobs.iter_mut().enumerate() {
        if let Some(item) = job.change.removed_mut() {
            item.thing.keep_as(first + number);
        }
    }
}

impl CheckedPlan<'_> {
    /// Goes on with the jobs that nothing is said against.
    fn sort_out(&mut self, mut check: impl FnMut(&FileWork) -> Result<(), Error>) {
        for (step, job) in std::mem::take(&mut self.jobs) {
            match check(&job) {
                Ok(()) => self.jobs.push((step, job)),
                Err(error) => self.obstacles.push(Obstacle { step, error }),
            }
        }
    }

    fn each_path_is_changed_once(&mut self) {
        let (mut paths, mut files) = (PathMap::default(), BTreeSet::new());
        self.sort_out(|job| {
            let twice = |path: &Path| Err(Error::refused(path, "is in the plan twice"));
            for path in job.change.paths() {
                if paths.insert(path, ()).is_some() {
                    return twice(path);
                }
            }
            let identity = job.stamps.first().map(|stamp| stamp.identity());
            match identity.is_some_and(|identity| !files.insert(identity)) {
                true => twice(job.change.path()),
                false => Ok(()),
            }
        });
    }

    /// Nothing is added to a directory that neither is there nor is added before.
    fn each_directory_is_there(&mut self) {
        let mut directories: PathMap<bool> = PathMap::default();
        for turn in [Turn::AddDirectories, Turn::Add] {
            self.sort_out(|job| {
                if job.change.turn() != turn {
                    return Ok(());
                }
                let path = job.change.path();
                let directory = directory_of(path);
                let there = match directories.get(directory) {
                    Some(there) => *there,
                    None => directory.is_dir(),
                };
                directories.insert(directory, there);
                if !there {
                    let reason = "its directory is not there, and not in the plan before it";
                    return Err(Error::refused(path, reason));
                }
                if turn == Turn::AddDirectories {
                    directories.insert(path, true);
                }
                Ok(())
            });
        }
    }
}

/// Whether a file's name can be removed, as far as that can be asked.
pub(crate) fn can_be_removed(path: &Path) -> Result<(), Error> {
    place::can_be_removed(path)
}

/// A path with the symbolic links of its directories resolved, as far as those are there; not that
/// of its last name.
pub(crate) fn resolved(path: &Path) -> Result<PathBuf, Error> {
    resolved_with(path, &HeldDirectories::default())
}

/// The same; a directory without links on the way is then held.
fn resolved_with(path: &Path, held: &HeldDirectories) -> Result<PathBuf, Error> {
    use std::path::Component;
    if !path.is_absolute() {
        return Err(Error::refused(path, "is not an absolute path"));
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Error::refused(path, "has a zero byte in it"));
    }
    let dots =
        path.components().any(|part| matches!(part, Component::ParentDir | Component::CurDir));
    let Some(name) = path.file_name().filter(|_| !dots) else {
        return Err(Error::refused(path, "is not the plain name of a file"));
    };
    let directory: PathBuf = directory_of(path).components().collect();
    if held.real(&directory).is_some() {
        return Ok(directory.join(name));
    }
    let there = directory.ancestors().find(|directory| directory.symlink_metadata().is_ok());
    let there = there.unwrap_or(Path::new("/"));
    let real = there.canonicalize().map_err(|error| Error::at("resolve", there, error))?;
    let rest = directory.strip_prefix(there).unwrap_or(Path::new(""));
    Ok(real.join(rest).join(name))
}
