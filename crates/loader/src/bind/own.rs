//! What a library's own list of directories finds, without simulating the library.
//!
//! A store's library is looked at once for each of its needs, over lists of hundreds of
//! directories: simulated, that is most of the time that planning takes. So every directory is
//! listed once, and asked by name.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::collect::{ElfFileNames, entries};
use super::farm::FOR_HARDWARE;
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
        !list.contains(&b'$') && elements(list).all(|directory| directory.starts_with(b"/"))
    })
}

fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b':')
}

impl<'a> OwnLists<'a> {
    /// For these files, whose lists are plain.
    pub fn of(resolver: &Resolver<'a>, files: &[&ElfFileNames]) -> OwnLists<'a> {
        let mut directories: FxHashSet<&[u8]> = FxHashSet::default();
        for (list, _) in files.iter().filter_map(|file| list(file)) {
            directories.extend(elements(list.as_bytes()));
        }
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
        let mut positions = ListPositions::default();
        for (at, element) in
            list(file).iter().flat_map(|(list, _)| elements(list.as_bytes())).enumerate()
        {
            if let Some(number) = self.numbers.get(element) {
                positions.entry(*number).or_insert(at);
            }
        }
        positions
    }

    /// What a need of the file with this list would come to in processes that have loaded nothing
    /// else.
    pub fn finds(&self, positions: &ListPositions, name: &OsStr) -> Vec<FileId> {
        let holders = self.holders.get(name).into_iter().flatten();
        let own = holders.filter_map(|number| Some((positions.get(number)?, *number))).min();
        match own {
            // A variant for some hardware is there as well as the file, or instead of it; which
            // one would be taken does not matter to whom it is compared with.
            Some((_, number)) => {
                let opened = self.world.open(&self.directories[number].join(name));
                opened.iter().map(|opened| opened.id).collect()
            }
            None => self.machine.iter().filter_map(|found| found.get(name).copied()).collect(),
        }
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
