//! What a closure would take from libraries: the lists of those that brought them in.
//!
//! Where a library without a DT_RUNPATH opens another by name, the loader looks in its DT_RPATH, then in those of
//! who asked for it, and of who asked for that, up to the program's (ld.so(8); glibc, elf/dl-load.c,
//! `_dl_map_object`: `l_loader`). Whoever asked for it, a library of a closure is asked for by the
//! closure's own library, which has no list: the program's alone is left.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::dlopen::may_be_called_in_file;
use super::farm::Farms;
use super::resolve::{LoaderRun, LoaderRunObject, ResolvedBy};
use super::wanted::BindFacts;
use crate::FileId;

/// The library of a start that opens others by name through another library's list, which leads elsewhere than the
/// program's; and that other one.
pub(super) fn opens_through_another<'a>(
    known: &BindFacts<'_>,
    run: &'a LoaderRun,
    farms: &mut Farms,
) -> Option<(&'a Path, &'a Path)> {
    let root = known.root(run.root);
    let mut differs: Vec<Option<bool>> = vec![None; run.members.len()];
    for member in &run.members[1..] {
        for by in run.askers(member).take_while(|by| *by != 0) {
            let giver = &run.members[by];
            let Some(list) = handed_on(giver) else { continue };
            let differs = *differs[by].get_or_insert_with(|| {
                let offered = farms.all_offered(known.world, &root, list.as_bytes());
                offered.is_none_or(|names| {
                    names.iter().any(|name| leads_elsewhere(known, run, list, name))
                })
            });
            if differs && may_open(known, member) {
                return Some((&member.path, &giver.path));
            }
        }
    }
    None
}

/// The list of an object that those that it asks for have, too.
fn handed_on(member: &LoaderRunObject) -> Option<&OsStr> {
    let object = &member.object;
    object.rpath.as_deref().filter(|list| object.runpath.is_none() && !list.is_empty())
}

/// Whether a name that nothing loaded serves leads through a list to another file than through the program's.
fn leads_elsewhere(known: &BindFacts<'_>, run: &LoaderRun, list: &OsStr, name: &OsStr) -> bool {
    let is_served = |member: &LoaderRunObject| {
        member.asked_as == name || member.object.soname.as_deref() == Some(name)
    };
    let first = |list: &OsStr| -> Option<FileId> {
        let directories = list.as_bytes().split(|byte| *byte == b':');
        let mut paths = directories.map(|it| Path::new(OsStr::from_bytes(it)).join(name));
        paths.find_map(|path| known.world.open(&path).ok()).map(|opened| opened.id)
    };
    let programs = || handed_on(&run.members[0]).and_then(first);
    !run.members.iter().any(is_served) && first(list) != programs()
}

fn may_open(known: &BindFacts<'_>, member: &LoaderRunObject) -> bool {
    if matches!(member.found, ResolvedBy::Kernel | ResolvedBy::Loader) {
        return false;
    }
    let file = known.files.iter().find(|file| file.id == member.id);
    let said = file.and_then(|file| file.may_dlopen);
    said.unwrap_or_else(|| may_be_called_in_file(&member.path))
}
