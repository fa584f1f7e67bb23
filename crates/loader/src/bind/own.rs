//! What a library's own list of directories finds, without simulating the library.
//!
//! A store's library is looked at once for each of its needs, over lists of hundreds of
//! directories: simulated, that is most of the time that planning takes. So every directory is
//! listed once, and asked by name.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::collect::ElfFileNames;
use super::farm::FOR_HARDWARE;
use super::pins::needed;
use super::resolve::Resolver;
use super::wanted::list;
use crate::object::{Dependency, Tag};
use crate::{ElfObject, FileId, World};

/// What own lists find.
pub(super) struct OwnLists<'a> {
    world: &'a dyn World,
    /// The directories that hold a name, or a variant of it for some hardware.
    holders: HashMap<OsString, Vec<PathBuf>>,
    /// What the machine's own directories have; and what is found in each environment.
    machine: Vec<HashMap<OsString, FileId>>,
}

/// Whether a list can be asked by name: no directory of it depends on where the file is.
pub(super) fn is_plain(file: &ElfFileNames) -> bool {
    list(file).is_none_or(|(list, _)| {
        let list = list.as_bytes();
        !list.contains(&b'$')
            && list.split(|byte| *byte == b':').all(|directory| directory.starts_with(b"/"))
    })
}

impl<'a> OwnLists<'a> {
    /// For these files, whose lists are plain.
    pub fn of(resolver: &Resolver<'a>, files: &[&ElfFileNames]) -> OwnLists<'a> {
        let mut directories: BTreeSet<&[u8]> = BTreeSet::new();
        for (list, _) in files.iter().filter_map(|file| list(file)) {
            directories.extend(list.as_bytes().split(|byte| *byte == b':'));
        }
        let directories: Vec<&Path> =
            directories.into_iter().map(|path| Path::new(OsStr::from_bytes(path))).collect();
        let listed: Vec<_> = directories
            .par_iter()
            .map(|directory| (*directory, libraries(directory, true)))
            .collect();
        let mut holders: HashMap<OsString, Vec<PathBuf>> = HashMap::new();
        for (directory, names) in listed {
            for name in names {
                holders.entry(name).or_default().push(directory.to_owned());
            }
        }
        let names: HashSet<&OsStr> = files.iter().flat_map(|file| needed(file)).collect();
        let machine = files.first().map(|file| machine(resolver, &file.object, names));
        OwnLists { world: resolver.world, holders, machine: machine.unwrap_or_default() }
    }

    /// What a need of the file would come to in processes that have loaded nothing else.
    pub fn finds(&self, file: &ElfFileNames, name: &OsStr) -> Vec<FileId> {
        let own = list(file).and_then(|(list, _)| {
            let place =
                |directory: &Path| position(list.as_bytes(), directory.as_os_str().as_bytes());
            let holders = self.holders.get(name)?.iter();
            holders.filter_map(|directory| Some((place(directory)?, directory))).min()
        });
        match own {
            // A variant for some hardware is there as well as the file, or instead of it; which
            // one would be taken does not matter to whom it is compared with.
            Some((_, directory)) => {
                let opened = self.world.open(&directory.join(name));
                opened.iter().map(|opened| opened.id).collect()
            }
            None => self.machine.iter().filter_map(|found| found.get(name).copied()).collect(),
        }
    }
}

/// Where in a list a directory is.
fn position(list: &[u8], directory: &[u8]) -> Option<usize> {
    list.split(|byte| *byte == b':').position(|each| each == directory)
}

/// The names of libraries in a directory, and in those below it that are for some hardware.
fn libraries(directory: &Path, deeper: bool) -> Vec<OsString> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names = Vec::new();
    for name in entries.flatten().map(|entry| entry.file_name()) {
        if deeper && FOR_HARDWARE.iter().any(|variant| name == *variant) {
            let below = fs::read_dir(directory.join(&name)).into_iter().flatten().flatten();
            names.extend(below.flat_map(|entry| libraries(&entry.path(), false)));
            names.extend(libraries(&directory.join(&name), false));
        }
        names.push(name);
    }
    names
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_found_in_a_list_whole_or_not_at_all() {
        assert_eq!(position(b"/a:/bb:/b", b"/b"), Some(2));
        assert_eq!(position(b"/a:/bb", b"/b"), None);
        assert_eq!(position(b"", b"/b"), None);
    }
}
