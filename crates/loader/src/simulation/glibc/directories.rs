//! The directories of the search, and what the loader has learnt of them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::setting::GlibcProfile;

/// `enum r_dir_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DirectoryStatus {
    Unknown,
    Existing,
    Nonexisting,
}

/// One search directory, which all lists that name it share (`struct r_search_path_elem`).
#[derive(Debug, Clone)]
pub(super) struct SearchDirectory {
    /// With a slash at its end; empty for the working directory.
    pub(super) name: Rc<[u8]>,
    /// Of each sub-directory in [`SearchDirectories::subdirectories`].
    pub(super) status: Vec<DirectoryStatus>,
}

/// A list of directories, as indices into [`SearchDirectories::all`] (`struct r_search_path_struct`).
#[derive(Debug, Clone, Default)]
pub(super) enum SearchDirectoryList {
    /// Not looked at yet.
    #[default]
    Unread,
    /// There is none, or none of its directories exists.
    None,
    /// These directories.
    Of(Rc<[usize]>),
}

/// All search directories of the process.
#[derive(Clone)]
pub(super) struct SearchDirectories {
    pub(super) all: Vec<SearchDirectory>,
    known: FxHashMap<Rc<[u8]>, usize>,
    /// The same by the elements of lists, as they are written.
    written: FxHashMap<Box<[u8]>, usize>,
    /// Sub-directories tried in each directory, each with a slash at its end; the last is empty.
    pub(super) subdirectories: Rc<[OsString]>,
    pub(super) system: SearchDirectoryList,
    pub(super) library_path: SearchDirectoryList,
}

impl SearchDirectories {
    /// With the system's directories only.
    pub(super) fn new(profile: &GlibcProfile) -> SearchDirectories {
        let mut directories = SearchDirectories {
            all: Vec::new(),
            known: FxHashMap::default(),
            written: FxHashMap::default(),
            subdirectories: profile.subdirectories.clone().into(),
            system: SearchDirectoryList::None,
            library_path: SearchDirectoryList::None,
        };
        let names = profile.system_directories.iter();
        let names = names.map(|path| with_slash(path.as_os_str().as_bytes().to_vec())).collect();
        directories.system = directories.list(names);
        directories
    }

    /// No sub-directories, ever. Nothing has been searched yet.
    pub(super) fn only_bare(&mut self) {
        self.subdirectories = Rc::new([OsString::new()]);
        for directory in &mut self.all {
            directory.status.truncate(1);
        }
    }

    /// LD_LIBRARY_PATH has these elements.
    pub(super) fn set_library_path(&mut self, elements: Vec<Vec<u8>>) {
        self.library_path = self.list(elements);
    }

    /// The list with these elements, each of which has a slash at its end or is empty. What is
    /// named twice counts once (`fillin_rpath` in elf/dl-load.c).
    pub(super) fn list(&mut self, elements: Vec<Vec<u8>>) -> SearchDirectoryList {
        let directories = elements.into_iter().map(|name| self.directory(name)).collect();
        once_each(directories, self.all.len())
    }

    /// The list that a text without tokens says, its elements separated by colons.
    pub(super) fn list_of(&mut self, text: &[u8]) -> SearchDirectoryList {
        let directories = text.split(|byte| *byte == b':').map(|element| self.as_written(element));
        once_each(directories.collect(), self.all.len())
    }

    fn as_written(&mut self, element: &[u8]) -> usize {
        if let Some(known) = self.written.get(element) {
            return *known;
        }
        let name = element.to_vec();
        let directory = self.directory(if name.is_empty() { name } else { with_slash(name) });
        self.written.insert(element.into(), directory);
        directory
    }

    fn directory(&mut self, name: Vec<u8>) -> usize {
        if let Some(known) = self.known.get(&name[..]) {
            return *known;
        }
        // The working directory may change, so that relative directories are always looked into.
        let status = if name.starts_with(b"/") {
            DirectoryStatus::Unknown
        } else {
            DirectoryStatus::Existing
        };
        let name: Rc<[u8]> = name.into();
        self.all.push(SearchDirectory {
            name: name.clone(),
            status: vec![status; self.subdirectories.len()],
        });
        self.known.insert(name, self.all.len() - 1);
        self.all.len() - 1
    }
}

/// What is named twice counts once.
fn once_each(mut directories: Vec<usize>, all: usize) -> SearchDirectoryList {
    let mut seen = vec![false; all];
    directories.retain(|directory| !std::mem::replace(&mut seen[*directory], true));
    if directories.is_empty() {
        SearchDirectoryList::None
    } else {
        SearchDirectoryList::Of(directories.into())
    }
}

/// With one slash at its end; the name is not empty.
pub(super) fn with_slash(mut name: Vec<u8>) -> Vec<u8> {
    while name.len() > 1 && name.ends_with(b"/") {
        name.pop();
    }
    if !name.ends_with(b"/") {
        name.push(b'/');
    }
    name
}
