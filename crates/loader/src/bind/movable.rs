//! Trees that find themselves by `$ORIGIN` and were seen in use: plug-ins, extension modules of Python
//! and the libraries that a wheel brings for them. They stay movable.
//!
//! What a file's own list finds is named by `$ORIGIN`. What the machine has stays a name: once nothing
//! is left that the list leads to, it goes, and no directory of the tree is searched in vain.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::collect::{ElfFileNames, entries};
use super::farm::FOR_HARDWARE;
use super::packed::directories_of;
use super::pins::{Pin, Vote, needed};
use super::places::depends_on_place;
use super::reasons::SearchedReason;
use super::resolve::{LoaderRun, LoaderRunObject, ResolvedBy};
use super::through::Through;
use super::wanted::BindFacts;
use crate::edit::NeededEdit;
use crate::object::is_library_name;
use crate::{FileId, World};

impl BindFacts<'_> {
    /// Whether a file was seen to be loaded by running programs only, and is bound so that its tree can
    /// be moved.
    pub fn is_seen_later(&self, number: usize) -> bool {
        let is_later = self.later.contains(&self.files[number].id);
        is_later && !self.options.absolute && !self.packed.is_image()
    }

    /// Whether nothing is left that a file's list leads to: neither a name of its own, nor one of what
    /// it needs, which would inherit the list, nor what may be opened by name.
    pub fn leads_no_more(&self, number: usize) -> bool {
        let id = self.files[number].id;
        self.places.of(id).all(|(run, member)| {
            let Some(offered) = offered(self.world, &run.members[member]) else { return false };
            let needs = |it: &LoaderRunObject, name: &OsString, entry: usize| match it.id == id {
                true => !self.names(id, entry),
                false => inherits(self.world, it, name) && !self.names(it.id, entry),
            };
            let looks = |it: &LoaderRunObject| {
                let mut names = it.object.needed().enumerate();
                names.any(|(entry, name)| offered.contains(name) && needs(it, name, entry))
            };
            let sonames = run.below(member).filter_map(|it| it.object.soname.clone());
            let may_open = self.dlopens.contains(&id);
            !run.below(member).any(looks)
                && (!may_open || offered.is_subset(&sonames.collect::<HashSet<_>>()))
        })
    }

    /// Whether a file is to name what serves a need.
    fn names(&self, id: FileId, entry: usize) -> bool {
        let number = self.files.iter().position(|file| file.id == id);
        let pin = number.and_then(|number| self.pins.by_file.get(&number)?.get(entry));
        matches!(pin, Some(Pin::To(_) | Pin::Settled))
    }
}

impl LoaderRun {
    /// How a member names another by its own `$ORIGIN`: as the list of `$ORIGIN`s does by which it was
    /// the first to find it, or beside itself, where another's list did.
    pub fn beside(&self, member: usize, target: usize) -> Option<Vec<u8>> {
        let (asks, target) = (&self.members[member], &self.members[target]);
        let ResolvedBy::ByList { through: Through::Origin, .. } = target.found else {
            return None;
        };
        let origin = asks.path.parent()?.as_os_str().as_bytes();
        let below = target.path.as_os_str().as_bytes().strip_prefix(origin)?;
        let is_first = target.asked_by == Some(member) && below.starts_with(b"/");
        is_first.then(|| [&b"$ORIGIN"[..], below].concat())
    }

    /// A member, the one that asked for it, and so on up to the program.
    pub fn loaders_of(&self, id: FileId) -> impl Iterator<Item = &LoaderRunObject> {
        let first = self.members.iter().find(|member| member.id == id);
        let above = first.into_iter().flat_map(|first| self.askers(first));
        first.into_iter().chain(above.map(|number| &self.members[number]))
    }
}

/// Why a name stays in a file that programs load only while they run. Trees that find themselves stay
/// movable: what such a list finds is named by the file's own `$ORIGIN`, and nothing else is named. And where
/// there is no list, what the machine has costs no search.
pub(super) fn stays_a_name(
    file: &ElfFileNames,
    votes: &[Vote],
    runs: &[LoaderRun],
) -> Option<SearchedReason> {
    if votes.iter().any(|vote| is_beside(file, vote, runs)) {
        return None;
    }
    // Who asks for what is loaded already searches for nothing, and a path would cost an open.
    if !votes.iter().any(|vote| is_first_to_ask(file, vote, &runs[vote.run])) {
        return Some(SearchedReason::Movable);
    }
    let loaders = || votes.iter().flat_map(|vote| runs[vote.run].loaders_of(file.id));
    if loaders().any(|it| depends_on_place(&it.object)) {
        let searches = |vote: &Vote| is_searched_for(file, vote, &runs[vote.run]);
        return Some(match votes.iter().any(searches) {
            true => SearchedReason::Relocatable,
            false => SearchedReason::Movable,
        });
    }
    let is_the_machines =
        |vote: &Vote| matches!(vote.found, ResolvedBy::BySystem | ResolvedBy::Directly);
    let is_searched = loaders().any(|it| !it.object.search_path().is_empty());
    (!is_searched && votes.iter().all(is_the_machines)).then_some(SearchedReason::Movable)
}

/// Whether a list of `$ORIGIN`s leads to it, and the file is the first to ask for it.
fn is_searched_for(file: &ElfFileNames, vote: &Vote, run: &LoaderRun) -> bool {
    matches!(vote.found, ResolvedBy::ByList { through: Through::Origin, .. })
        && is_first_to_ask(file, vote, run)
}

fn is_first_to_ask(file: &ElfFileNames, vote: &Vote, run: &LoaderRun) -> bool {
    let target = run.members.iter().find(|it| Some(it.id) == vote.to);
    let asks = target.and_then(|it| it.asked_by).map(|asks| run.members[asks].id);
    asks == Some(file.id)
}

/// Whether a library is one that a file can name by its own `$ORIGIN`, to a loader that knows that in
/// names.
fn is_beside(file: &ElfFileNames, vote: &Vote, runs: &[LoaderRun]) -> bool {
    let run = &runs[vote.run];
    let number = |id: Option<FileId>| run.members.iter().position(|it| Some(it.id) == id);
    let (Some(member), Some(target)) = (number(Some(file.id)), number(vote.to)) else {
        return false;
    };
    !run.is_musl && run.beside(member, target).is_some()
}

/// The names of a file, some of which become paths.
///
/// glibc compares what versions are asked of with names in which tokens are replaced (`find_needed` in
/// elf/dl-version.c): of a library that `$ORIGIN` names, nobody could be asked. So its plain name
/// follows, which the loader knows by then.
pub(super) fn by_paths(file: &ElfFileNames, paths: BTreeMap<usize, Vec<u8>>) -> NeededEdit {
    let names: Vec<&[u8]> = needed(file).map(OsStr::as_bytes).collect();
    let asked = |name: &[u8]| file.object.verneed.iter().any(|it| it.file.as_bytes() == name);
    let by_origin = paths.iter().filter(|(_, path)| path.starts_with(b"$"));
    let also: BTreeSet<&[u8]> = by_origin
        .filter_map(|(entry, _)| names.get(*entry).copied())
        .filter(|it| asked(it))
        .collect();
    if paths.is_empty() {
        return NeededEdit::Keep;
    }
    if also.is_empty() {
        return NeededEdit::Replace(paths);
    }
    let mut all: Vec<Vec<u8>> = names.iter().map(|name| name.to_vec()).collect();
    all.extend(also.iter().map(|name| name.to_vec()));
    let mut providers = BTreeMap::new();
    for (entry, path) in paths {
        if !also.contains(names[entry]) {
            providers.insert(names[entry].to_vec(), path.clone());
        }
        all[entry] = path;
    }
    NeededEdit::List { names: all, providers }
}

/// Whether an object looks for a name by the lists of those that loaded it: it has no DT_RUNPATH, and
/// its own list, which comes first, does not lead to it.
fn inherits(world: &dyn World, object: &LoaderRunObject, name: &OsString) -> bool {
    let own = || offered(world, object).is_some_and(|own| own.contains(name));
    object.object.runpath.is_none() && !own()
}

/// The libraries that an object's list offers where it is; none where that is not known, or depends on
/// the processor.
fn offered(world: &dyn World, object: &LoaderRunObject) -> Option<HashSet<OsString>> {
    let list = object.object.search_path();
    if list.is_empty() {
        return Some(HashSet::new());
    }
    let mut all = HashSet::new();
    for directory in directories_of(list, &object.path) {
        if !directory.is_absolute() {
            return None;
        }
        all.extend(libraries(world, &directory)?);
    }
    Some(all)
}

fn libraries(world: &dyn World, directory: &Path) -> Option<Vec<OsString>> {
    let entries = match entries(world, directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(_) => return None,
    };
    let names: Vec<OsString> = entries.into_iter().map(|(name, _)| name).collect();
    let is_variant = |name: &OsString| FOR_HARDWARE.iter().any(|it| name == OsStr::new(it));
    if names.iter().any(is_variant) {
        return None;
    }
    Some(names.into_iter().filter(|name| is_library_name(name.as_bytes())).collect())
}
