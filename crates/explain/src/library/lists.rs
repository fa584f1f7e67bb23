//! The lists of directories that the loader searches.
//!
//! glibc's order (elf/dl-load.c, `_dl_map_object`): unless the file that needs the library has
//! a RUNPATH, the RPATH of that file, of the file that needed it, and so on up to the program;
//! then LD_LIBRARY_PATH; then the RUNPATH of the file that needs it; then the cache and the
//! system's directories.

use std::collections::{HashMap, HashSet};

use recording::query::clean;
use recording::{Exec, PathId, Recording};

use crate::survey::{split, variable};

/// A list of directories that the loader searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SearchList {
    /// DT_RPATH of a file.
    Rpath(PathId),
    /// LD_LIBRARY_PATH.
    LibraryPath,
    /// DT_RUNPATH of a file.
    Runpath(PathId),
    /// The system's directories, or a list that the recording does not show.
    Other,
}

/// Where a probed directory is from.
pub(super) struct ListedDirectory {
    pub list: SearchList,
    /// How many directories that list has.
    pub directories: u64,
    /// The directory of the list.
    pub directory: Vec<u8>,
    /// Whether the probe was in a sub-directory for a processor type.
    pub is_hwcaps: bool,
}

type DirectorySet = HashSet<Vec<u8>>;

/// The lists of one program, their directories spelt out.
pub(super) struct SearchLists<'a> {
    recording: &'a Recording,
    library_path: DirectorySet,
    library_path_order: Vec<Vec<u8>>,
    /// The files whose code may have opened a library by name.
    callers: Vec<PathId>,
    files: HashMap<PathId, (SearchList, DirectorySet)>,
}

impl<'a> SearchLists<'a> {
    /// The lists of a program; `callers` are the files that may have called dlopen.
    pub fn of(
        recording: &'a Recording,
        exec: &Exec,
        callers: &[(&[u8], PathId)],
    ) -> SearchLists<'a> {
        let origin = split(recording.path(exec.image)).0;
        let library_path = variable(exec, "LD_LIBRARY_PATH").unwrap_or_default();
        let directories = library_path.split([':', ';']).filter(|directory| !directory.is_empty());
        let library_path_order: Vec<_> =
            directories.map(|directory| expand(directory, origin)).collect();
        SearchLists {
            recording,
            library_path: library_path_order.iter().cloned().collect(),
            library_path_order,
            callers: callers.iter().map(|(_, path)| *path).collect(),
            files: HashMap::new(),
        }
    }

    /// The directories of LD_LIBRARY_PATH, in its order.
    pub fn library_path(&self) -> &[Vec<u8>] {
        &self.library_path_order
    }

    /// The list that a probed directory is from: the first, in the loader's order, that has it.
    /// `chain` is who needed the library, up to the program.
    pub fn place(&mut self, probed: &[u8], chain: &[PathId]) -> ListedDirectory {
        self.read(chain);
        let of = |file: &PathId| self.files.get(file);
        let rpaths = || chain.iter().filter_map(of).filter(|(list, _)| is_rpath(*list));
        let own = chain.first().and_then(of);
        let runs_own =
            own.is_some_and(|(list, directories)| !is_rpath(*list) && !directories.is_empty());
        let found = rpaths()
            .filter(|_| !runs_own)
            .find_map(|(list, directories)| found_in(*list, directories, probed))
            .or_else(|| found_in(SearchList::LibraryPath, &self.library_path, probed))
            .or_else(|| own.and_then(|(list, directories)| found_in(*list, directories, probed)))
            .or_else(|| self.place_of_dlopen(probed));
        found.unwrap_or_else(|| {
            let mut directory = probed;
            while let Some(above) = without_hwcap(directory) {
                directory = above;
            }
            let is_hwcaps = directory != probed;
            ListedDirectory {
                list: SearchList::Other,
                directories: 0,
                directory: directory.to_vec(),
                is_hwcaps,
            }
        })
    }

    /// A dlopen may come from any file; the recording does not say which.
    fn place_of_dlopen(&mut self, probed: &[u8]) -> Option<ListedDirectory> {
        let callers = std::mem::take(&mut self.callers);
        self.read(&callers);
        let place = callers
            .iter()
            .filter_map(|file| self.files.get(file))
            .find_map(|(list, directories)| found_in(*list, directories, probed));
        self.callers = callers;
        place
    }

    fn read(&mut self, files: &[PathId]) {
        for file in files {
            let recording = self.recording;
            self.files.entry(*file).or_insert_with(|| {
                let origin = split(recording.path(*file)).0;
                let expanded = |directories: &Vec<String>| {
                    directories.iter().map(|directory| expand(directory, origin)).collect()
                };
                match recording.images.get(file) {
                    // The loader ignores an RPATH beside a RUNPATH.
                    Some(image) if !image.runpath.is_empty() => {
                        (SearchList::Runpath(*file), expanded(&image.runpath))
                    }
                    Some(image) => (SearchList::Rpath(*file), expanded(&image.rpath)),
                    None => (SearchList::Rpath(*file), DirectorySet::new()),
                }
            });
        }
    }
}

fn is_rpath(list: SearchList) -> bool {
    matches!(list, SearchList::Rpath(_))
}

/// The place of a probed directory in a list, itself or as a sub-directory for a processor type.
fn found_in(
    list: SearchList,
    directories: &DirectorySet,
    probed: &[u8],
) -> Option<ListedDirectory> {
    let mut above = Some(probed);
    while let Some(directory) = above {
        if directories.contains(directory) {
            return Some(ListedDirectory {
                list,
                directories: directories.len() as u64,
                directory: directory.to_vec(),
                is_hwcaps: directory != probed,
            });
        }
        above = without_hwcap(directory);
    }
    None
}

/// A directory of a list as the loader spells it. `$LIB` and `$PLATFORM` are left alone: what
/// they stand for depends on the loader's build and on the processor.
fn expand(directory: &str, origin: &[u8]) -> Vec<u8> {
    let origin = String::from_utf8_lossy(origin);
    let directory = directory.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
    clean(directory.as_bytes()).into_owned()
}

/// The directory without its last sub-directory for a processor type, if that is one: glibc's
/// `glibc-hwcaps/NAME` (since 2.33) and the older `tls/haswell/avx512_1/x86_64` (to 2.36).
fn without_hwcap(directory: &[u8]) -> Option<&[u8]> {
    let (above, name) = split(directory);
    let (top, parent) = split(above);
    if parent == b"glibc-hwcaps" {
        return Some(top);
    }
    HWCAPS.contains(&name).then_some(above)
}

#[rustfmt::skip]
const HWCAPS: &[&[u8]] = &[
    b"tls", b"x86_64", b"haswell", b"xeon_phi", b"avx512_1", b"i686", b"i586", b"i486", b"sse2",
    b"aarch64", b"cpuid", b"atomics", b"power8", b"power9", b"glibc-hwcaps",
];
