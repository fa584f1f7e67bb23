//! What a library's needs come to where something opens the library by name.
//!
//! Whose list leads to a library that it does not load at its start may open it (dlopen). The library's
//! needs are then served by what the process has loaded by their names, else by what the library's own
//! list finds, else by the DT_RPATH of who opens it, which is handed on (ld.so(8)), or not at all. A path
//! in the library would come before all of that.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::collect::ElfFileNames;
use super::own::{ListPositions, OwnLists};
use super::pins::needed;
use super::resolve::{LoaderRun, LoaderRunObject};
use crate::FileId;

/// Files that may open others, by what their lists lead to.
pub(super) struct Openers<'a> {
    files: &'a [ElfFileNames],
    programs: &'a [LoaderRun],
    own: &'a OwnLists<'a>,
    /// The files that programs load by each name.
    served: OnceLock<HashMap<&'a OsStr, HashSet<FileId>>>,
    lists: OnceLock<OpenerLists<'a>>,
    /// The openers of each library that was asked about.
    of_library: Mutex<HashMap<FileId, Arc<[usize]>>>,
}

/// The openers, and the numbers of those that list a directory.
#[derive(Default)]
struct OpenerLists<'a> {
    all: Vec<Opener<'a>>,
    naming: HashMap<usize, Vec<usize>>,
    /// The directories of lists that hold each library, and its name there.
    holding: HashMap<FileId, Vec<(usize, &'a OsStr)>>,
}

/// A file with a list, in its start if it is a program's.
struct Opener<'a> {
    file: &'a ElfFileNames,
    start: Option<&'a LoaderRun>,
    positions: ListPositions,
}

impl<'a> Openers<'a> {
    pub fn of(
        files: &'a [ElfFileNames],
        programs: &'a [LoaderRun],
        own: &'a OwnLists<'a>,
    ) -> Openers<'a> {
        let (served, lists, of_library) = Default::default();
        Openers { files, programs, own, served, lists, of_library }
    }

    /// Whether another than this file, or none, would serve a library's need of a name in a process that
    /// opens the library. `has_own` says whether the library's own list leads to it.
    pub fn find_another(
        &self,
        library: &ElfFileNames,
        name: &OsStr,
        file: FileId,
        has_own: bool,
    ) -> bool {
        let served = self.served.get_or_init(|| self.served()).get(name);
        if has_own && served.is_none_or(|files| files.iter().all(|served| *served == file)) {
            return false;
        }
        let lists = self.lists.get_or_init(|| self.lists());
        self.openers_of(library, lists).iter().map(|number| &lists.all[*number]).any(|opener| {
            (opener.start.is_some() || !has_own)
                && self.serves(opener, library, name, (file, has_own)) != Some(file)
        })
    }

    /// Those that a list leads to the library, and that do not load it at their start.
    fn openers_of(&self, library: &ElfFileNames, lists: &OpenerLists<'_>) -> Arc<[usize]> {
        let known = || self.of_library.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(openers) = known().get(&library.id) {
            return Arc::clone(openers);
        }
        let openers: Arc<[usize]> = self.found_openers_of(library, lists).into();
        known().insert(library.id, Arc::clone(&openers));
        openers
    }

    fn found_openers_of(&self, library: &ElfFileNames, lists: &OpenerLists<'_>) -> Vec<usize> {
        let mut openers = Vec::new();
        for (directory, name) in lists.holding.get(&library.id).into_iter().flatten() {
            let naming = lists.naming.get(directory).into_iter().flatten().copied();
            openers.extend(naming.filter(|number| {
                let opener = &lists.all[*number];
                self.own.leads_to(&opener.positions, name) == Some(library.id)
                    && !opener.loads(library, name)
            }));
        }
        openers
    }

    /// What serves a need of a library where it is opened.
    fn serves(
        &self,
        opener: &Opener<'_>,
        library: &ElfFileNames,
        name: &OsStr,
        (file, has_own): (FileId, bool),
    ) -> Option<FileId> {
        let mut loaded = opener.start.iter().flat_map(|run| &run.members);
        if let Some(loaded) = loaded.find(|member| is_known_by(member, name)) {
            return Some(loaded.id);
        }
        if has_own {
            return Some(file);
        }
        let lists = [&opener.file.object.runpath, &library.object.runpath];
        let is_handed_on = lists.into_iter().all(Option::is_none);
        is_handed_on.then(|| self.own.leads_to(&opener.positions, name)).flatten()
    }

    fn served(&self) -> HashMap<&'a OsStr, HashSet<FileId>> {
        let mut served: HashMap<&OsStr, HashSet<FileId>> = HashMap::new();
        for member in self.programs.iter().flat_map(|run| &run.members) {
            let names = [Some(&*member.asked_as), member.object.soname.as_deref()];
            for name in names.into_iter().flatten() {
                served.entry(name).or_default().insert(member.id);
            }
        }
        served
    }

    fn lists(&self) -> OpenerLists<'a> {
        let programs = self.programs.iter().map(|run| (&self.files[run.root], Some(run)));
        let libraries = self.files.iter().filter(|file| !file.is_program() && may_open(file));
        let mut lists = OpenerLists::default();
        for (file, start) in programs.chain(libraries.map(|file| (file, None))) {
            let positions = self.own.positions_of_opener(file);
            for directory in positions.keys() {
                lists.naming.entry(*directory).or_default().push(lists.all.len());
            }
            lists.all.push(Opener { file, start, positions });
        }
        let libraries = self.files.iter().filter(|file| !file.is_program());
        let names = libraries.flat_map(|file| {
            let names = file.names.iter().filter_map(|path| path.file_name());
            names.chain(file.object.soname.as_deref())
        });
        for name in names.collect::<HashSet<_>>() {
            for directory in self.own.holders_of(name) {
                if let Some(library) = self.own.file_in(*directory, name) {
                    lists.holding.entry(library).or_default().push((*directory, name));
                }
            }
        }
        lists
    }
}

/// Whether something may be opened through a file's list: of a program, by what it loads.
pub(super) fn may_open(file: &ElfFileNames) -> bool {
    file.is_program() || file.may_dlopen != Some(false)
}

impl Opener<'_> {
    /// Whether it loads a library anyway: what that needs is known, then.
    fn loads(&self, library: &ElfFileNames, name: &OsStr) -> bool {
        match self.start {
            Some(run) => run.members.iter().any(|member| member.id == library.id),
            None => needed(self.file).any(|needed| needed == name),
        }
    }
}

/// Whether the loader takes a name for one of an object that is loaded.
fn is_known_by(member: &LoaderRunObject, name: &OsStr) -> bool {
    member.asked_as == name || member.object.soname.as_deref() == Some(name)
}
