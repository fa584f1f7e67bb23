//! Checks a plan as a whole before anything is written, and turns it into changes.

mod item;
mod patch;
mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::attributes::Who;
use crate::change::Turn;
use crate::work::{Job, folder_of};
use crate::{Error, Plan, Step, pool};

/// What is to be done, or why it is not: the first reason in the plan's order.
///
/// # Errors
/// If any file is not what the plan says, cannot be replaced with all that it has, or has no
/// room. Nothing has been written then.
pub(crate) fn jobs<'a>(
    plan: &'a Plan,
    state: &Path,
    threads: usize,
) -> Result<Vec<Job<'a>>, Error> {
    let who = Who::am_i();
    let found = pool::each(threads, &plan.steps, |_, step| match step {
        Step::Patch { path, also, seen, edits } => {
            patch::job(path, also, seen, edits, &who).map(Some)
        }
        Step::Create { path, mode, content } => item::create(path, *mode, content).map(Some),
        Step::Replace { path, mode, content } => {
            item::replace(path, *mode, content, &who).map(Some)
        }
        Step::Link { path, target } => item::link(path, target).map(Some),
        Step::Folder { path, mode } => item::folder(path, *mode),
        Step::Remove { path } => item::remove(path, &who).map(Some),
    })?;
    let mut jobs: Vec<Job> = found.into_iter().flatten().collect();
    number_kept(&mut jobs);
    each_path_is_changed_once(&jobs)?;
    each_folder_is_there(&jobs)?;
    place::allows(&jobs, state)?;
    Ok(jobs)
}

/// Gives each file that is removed or replaced the number of its copy.
fn number_kept(jobs: &mut [Job]) {
    for (number, job) in jobs.iter_mut().enumerate() {
        if let Some(item) = job.change.removed_mut() {
            item.thing.keep_as(number);
        }
    }
}

fn each_path_is_changed_once(jobs: &[Job]) -> Result<(), Error> {
    let (mut paths, mut files) = (BTreeSet::new(), BTreeSet::new());
    for job in jobs {
        let twice = |path: &Path| Error::refused(path, "is in the plan twice");
        for path in job.change.paths() {
            if !paths.insert(path) {
                return Err(twice(path));
            }
        }
        let identity = job.stamps.first().map(|stamp| stamp.identity());
        if identity.is_some_and(|identity| !files.insert(identity)) {
            return Err(twice(job.change.path()));
        }
    }
    Ok(())
}

/// Nothing is added to a folder that neither is there nor is added before.
fn each_folder_is_there(jobs: &[Job]) -> Result<(), Error> {
    let of_turn = |turn| jobs.iter().filter(move |job| job.change.turn() == turn);
    let mut folders: BTreeMap<PathBuf, bool> = BTreeMap::new();
    for job in of_turn(Turn::AddFolders).chain(of_turn(Turn::Add)) {
        let path = job.change.path();
        let folder = folder_of(path);
        let there = *folders.entry(folder.to_owned()).or_insert_with(|| folder.is_dir());
        if !there {
            return Err(Error::refused(
                path,
                "its folder is not there, and not in the plan before it",
            ));
        }
        if job.change.turn() == Turn::AddFolders {
            folders.insert(path.to_owned(), true);
        }
    }
    Ok(())
}

/// A path with the symbolic links of its folders resolved, as far as those are there; not that of
/// its last name.
fn resolved(path: &Path) -> Result<PathBuf, Error> {
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
    let folder = folder_of(path);
    let there = folder.ancestors().find(|folder| folder.symlink_metadata().is_ok());
    let there = there.unwrap_or(Path::new("/"));
    let real = there.canonicalize().map_err(|error| Error::at("resolve", there, error))?;
    let rest = folder.strip_prefix(there).unwrap_or(Path::new(""));
    Ok(real.join(rest).join(name))
}
