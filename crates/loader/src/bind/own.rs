//! What a library's own list of directories finds, without simulating the library.
//!
//! A store's library is looked at once for each of its needs, over lists of hundreds of
//! directories: simulated, that is most of the time that planning takes. So every directory is
//! listed once, and asked by name.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::collect::{ElfFileNames, entries};
use super::farm::FOR_HARDWARE;
use super::packed::directories_of;
use super::pins::needed;
use super::resolve::Resolver;
use super::wanted::list;
use crate::object::{Dependency, Tag};
use crate::{ElfObject, FileId, World};

/// What own lists find.
pub(super) struct OwnLists<'a> {
    world: &'a dyn World,
    /// The directories of all lists, by their numbers, and the number of each.
    directories: Vec<PathBuf>,
    numbers: FxHashMap<Box<[u8]>, usize>,
    /// The directories that hold a name, or a variant of it for some hardware.
    holders: HashMap<OsString, Vec<usize>>,
    /// What the machine's own directories have; and what is found in each environment.
    machine: Vec<HashMap<OsString, FileId>>,
}

/// Where in one list each directory is, by its number.
pub(super) type ListPositions = FxHashMap<usize, usize>;

/// Whether a list can be asked by name: no directory of it depends on where the file is.
pub(super) fn is_plain(file: &ElfFileNames) -> bool {
    list(file).is_none_or(|(list, _)| {
        let list = list.as_bytes();
        let begins = |at: usize| list.get(at) == Some(&b'/');
        let all_begin = || begins(0) && memchr::memchr_iter(b':', list).all(|at| begins(at + 1));
        list.is_empty() || memchr::memchr(b'$', list).is_none() && all_begin()
    })
}

fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b':').filter(|element| !element.is_empty())
}

/// The directories of these files' lists.
fn listed_by<'b>(files: &[&'b ElfFileNames]) -> FxHashSet<&'b [u8]> {
    let add = |mut all: FxHashSet<&'b [u8]>, file: &&'b ElfFileNames| {
        all.extend(list(file).iter().flat_map(|(list, _)| elements(list.as_bytes())));
        all
    };
    let join = |one: FxHashSet<_>, other: FxHashSet<_>| {
        let (mut most, fewer) = if one.len() < other.len() { (other, one) } else { (one, other) };
        most.extend(fewer);
        most
    };
    files.par_iter().fold(FxHashSet::default, add).reduce(FxHashSet::default, join)
}

/// The directories that a list leads to from where the file is, as far as its text tells.
fn places(file: &ElfFileNames) -> Vec<PathBuf> {
    let directories = list(file).map(|(list, _)| directories_of(list, file.path()));
    let directories = directories.into_iter().flatten().filter(|it| it.is_absolute());
    directories.map(|directory| without_steps_back(&directory)).collect()
}

pub(super) fn without_steps_back(directory: &Path) -> PathBuf {
    let mut way = PathBuf::new();
    for step in directory.components() {
        match step {
            Component::ParentDir => drop(way.pop()),
            Component::CurDir => {}
            step => way.push(step),
        }
    }
    way
}

impl<'a> OwnLists<'a> {
    /// For these files, whose lists are plain, and for those that may open others by name.
    pub fn of(
        resolver: &Resolver<'a>,
        files: &[&ElfFileNames],
        openers: &[&ElfFileNames],
    ) -> OwnLists<'a> {
        let (plain, moving): (Vec<&ElfFileNames>, _) =
            openers.iter().copied().partition(|file| is_plain(file));
        let moving: Vec<PathBuf> = moving.into_iter().flat_map(places).collect();
        let listing: Vec<&ElfFileNames> = files.iter().copied().chain(plain).collect();
        let mut directories = listed_by(&listing);
        directories.extend(moving.iter().map(|place| place.as_os_str().as_bytes()));
        let mut directories: Vec<&[u8]> = directories.into_iter().collect();
        directories.sort_unstable();
        let path = |directory: &&[u8]| PathBuf::from(OsStr::from_bytes(directory));
        let paths: Vec<PathBuf> = directories.iter().map(path).collect();
        let world = resolver.world;
        let listed: Vec<_> = paths.par_iter().map(|path| libraries(world, path, true)).collect();
        let mut holders: HashMap<OsString, Vec<usize>> = HashMap::new();
        for (number, names) in listed.into_iter().enumerate() {
            for name in names {
                holders.entry(name).or_default().push(number);
            }
        }
        let numbers = directories.into_iter().enumerate();
        let numbers = numbers.map(|(number, directory)| (directory.into(), number)).collect();
        let names: HashSet<&OsStr> = files.iter().flat_map(|file| needed(file)).collect();
        let machine = files.first().map(|file| machine(resolver, &file.object, names));
        let machine = machine.unwrap_or_default();
        OwnLists { world, directories: paths, numbers, holders, machine }
    }

    /// Where in a file's list each directory is first.
    pub fn positions(&self, file: &ElfFileNames) -> ListPositions {
        let list = list(file);
        self.positions_in(list.iter().flat_map(|(list, _)| elements(list.as_bytes())))
    }

    /// The same of a file that may open others, whose list may hold `$ORIGIN`.
    pub fn positions_of_opener(&self, file: &ElfFileNames) -> ListPositions {
        if is_plain(file) {
            return self.positions(file);
        }
        let places = places(file);
        self.positions_in(places.iter().map(|place| place.as_os_str().as_bytes()))
    }

    fn positions_in<'b>(&self, elements: impl Iterator<Item = &'b [u8]>) -> ListPositions {
        let mut positions = ListPositions::default();
        for (at, element) in elements.enumerate() {
            if let Some(number) = self.numbers.get(element) {
                positions.entry(*number).or_insert(at);
            }
        }
        positions
    }

    /// What a need of the file with this list would come to in processes that have loaded nothing
    /// else.
    pub fn finds(&self, positions: &ListPositions, name: &OsStr) -> Vec<FileId> {
        match self.first_directory(positions, name) {
            Some(directory) => self.file_in(directory, name).into_iter().collect(),
            None => self.machine.iter().filter_map(|found| found.get(name).copied()).collect(),
        }
    }

    /// What a list itself leads to by a name.
    pub fn leads_to(&self, positions: &ListPositions, name: &OsStr) -> Option<FileId> {
        self.file_in(self.first_directory(positions, name)?, name)
    }

    /// The numbers of the directories that hold a file by a name.
    pub fn holders_of(&self, name: &OsStr) -> &[usize] {
        self.holders.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether a directory of lists holds another file by a name than these.
    pub fn hold_another(&self, name: &OsStr, files: &HashSet<FileId>) -> bool {
        let mut held = self.holders_of(name).iter().map(|directory| self.file_in(*directory, name));
        held.any(|file| file.is_some_and(|file| !files.contains(&file)))
    }

    fn first_directory(&self, positions: &ListPositions, name: &OsStr) -> Option<usize> {
        let at = |number: &usize| Some((positions.get(number)?, *number));
        let own = self.holders_of(name).iter().filter_map(at).min();
        own.map(|(_, number)| number)
    }

    /// What a directory holds by a name. A variant for some hardware is there as well as the file, or
    /// instead of it; which one would be taken does not matter to whom it is compared with.
    pub fn file_in(&self, directory: usize, name: &OsStr) -> Option<FileId> {
        let opened = self.world.open(&self.directories[directory].join(name));
        opened.ok().map(|opened| opened.id)
    }
}

/// The names of libraries in a directory, and in those below it that are for some hardware.
fn libraries(world: &dyn World, directory: &Path, deeper: bool) -> Vec<OsString> {
    let mut names = names_in(world, directory);
    let variants =
        |name: &&OsString| deeper && FOR_HARDWARE.iter().any(|variant| **name == *variant);
    let mut more = Vec::new();
    for variant in names.iter().filter(variants).map(|name| directory.join(name)) {
        let below = names_in(world, &variant);
        more.extend(below.iter().flat_map(|name| libraries(world, &variant.join(name), false)));
        more.extend(below);
    }
    names.append(&mut more);
    names
}

fn names_in(world: &dyn World, directory: &Path) -> Vec<OsString> {
    let entries = entries(world, directory).unwrap_or_default();
    entries.into_iter().map(|(name, _)| name).collect()
}

/// What the machine's own directories have of these names: one start of a file that needs them all.
fn machine(
    resolver: &Resolver<'_>,
    like: &ElfObject,
    names: HashSet<&OsStr>,
) -> Vec<HashMap<OsString, FileId>> {
    let mut object = ElfObject { rpath: None, runpath: None, soname: None, ..like.clone() };
    let mut sorted: Vec<&OsStr> = names.into_iter().collect();
    sorted.sort_unstable();
    let entry = |name: &OsStr| Dependency { tag: Tag::Needed, name: name.to_owned() };
    object.dependencies = sorted.iter().map(|name| entry(name)).collect();
    resolver.needs_of(object).unwrap_or_default()
}
