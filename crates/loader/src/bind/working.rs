//! Searches that depend on the directory in which a program is started.
//!
//! An empty element of a list is that directory, and a relative one is below it (glibc, elf/dl-load.c,
//! `fillin_rpath` and `decompose_rpath`: only a list that is empty as a whole is none).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustc_hash::FxHashSet;

use super::own::without_steps_back;
use super::packed::directories_of;
use super::resolve::{LoaderRun, LoaderRunObject, ResolvedBy};
use crate::{ElfObject, FileId};

/// Why a file is not bound by which such a search is made.
pub(super) const WORKING_DIRECTORY: &str = "an empty or relative directory of a list is asked first: \
                                            what is found depends on where the program is started";

/// The files whose list has such an element.
pub(super) fn with_such_lists<'a>(runs: impl Iterator<Item = &'a LoaderRun>) -> FxHashSet<FileId> {
    let mut seen = FxHashSet::default();
    let members = runs.flat_map(|run| &run.members).filter(|member| seen.insert(member.id));
    members.filter(|member| has_such_list(&member.object)).map(|member| member.id).collect()
}

/// Whether one of an object's lists has such an element.
pub(super) fn has_such_list(object: &ElfObject) -> bool {
    let lists = object.rpath.iter().chain(&object.runpath).filter(|list| !list.is_empty());
    lists.into_iter().any(|list| elements(list.as_bytes()).any(is_of_working_directory))
}

fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b':')
}

fn is_of_working_directory(element: &[u8]) -> bool {
    !element.starts_with(b"/") && !element.starts_with(b"$")
}

/// Whether the working directory is asked for an object of a start before it is found.
pub(super) fn is_asked_first(run: &LoaderRun, target: &LoaderRunObject) -> bool {
    let found_by = match target.found {
        ResolvedBy::ByList { of, .. } => Some(of),
        ResolvedBy::BySystem => None,
        _ => return false,
    };
    for by in searched(run, target) {
        let object = &run.members[by].object;
        let Some(list) = object.runpath.as_ref().or(object.rpath.as_ref()) else { continue };
        let asked = elements(list.as_bytes()).filter(|_| !list.is_empty());
        if found_by != Some(by) {
            if asked.into_iter().any(is_of_working_directory) {
                return true;
            }
            continue;
        }
        let directory = target.path.parent().map(without_steps_back);
        let places = directories_of(list, &run.members[by].path);
        let is_here = |place: &Path| directory.as_ref() == Some(&without_steps_back(place));
        let before = places.iter().position(|place| is_here(place)).unwrap_or(places.len());
        return asked.take(before).any(is_of_working_directory);
    }
    false
}

/// The objects whose lists are searched for one, in turn: of who asked for it, and of who asked for that, and so
/// on; only its own, where that is a DT_RUNPATH (ld.so(8)). musl's loader goes on in any case.
fn searched<'a>(
    run: &'a LoaderRun,
    target: &LoaderRunObject,
) -> impl Iterator<Item = usize> + use<'a> {
    let runpath = |by: &usize| !run.is_musl && run.members[*by].object.runpath.is_some();
    let is_alone = target.asked_by.is_some_and(|by| runpath(&by));
    let chain = run.askers(target);
    let above = chain.clone().skip(1).filter(move |by| !runpath(by) && !is_alone);
    chain.take(1).chain(above)
}
