//! The libraries that were loaded, below what needs them, with what the search for each cost.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use recording::query::{GroupBy, QueryRow, RowsOfCalls};
use recording::{MappedElf, PathId, Recording};

use crate::call_use::CallUse;
use crate::count_tree::{CountTree, TreeRows};
use crate::pictured_cause::COUNT;

/// Libraries that a page shows.
const MOST: usize = 2_000;
/// What no file that was loaded needs.
const BY_NAME: &[u8] = b"opened by the running program (dlopen)";
/// What is no library.
const OWN: &[u8] = b"the loader's own files";
/// Files of the loader itself (ld.so(8)), and what the tables call its calls on directories.
const OWN_FILES: [&[u8]; 3] = [b"ld.so.cache", b"ld.so.preload", b"(no library)"];

/// The searches for libraries.
pub(crate) struct LibraryCounts {
    rows: RowsOfCalls,
    uses: Vec<[CallUse; COUNT]>,
}

impl LibraryCounts {
    pub(crate) fn new(recording: &Recording) -> LibraryCounts {
        let rows = RowsOfCalls::of(recording, GroupBy::Library);
        LibraryCounts { uses: vec![[CallUse::default(); COUNT]; rows.rows.len()], rows }
    }

    pub(crate) fn count(&mut self, number: usize, cause: usize, uses: CallUse) {
        if let Some(row) = self.rows.of_call(number) {
            self.uses[row][cause] += uses;
        }
    }

    /// The tree; a library stands where it is needed first, level by level, as the loader loads.
    pub(crate) fn rows(self, recording: &Recording) -> TreeRows {
        let mut grown = LibraryTree {
            tree: CountTree::new(b"libraries"),
            places: self.rows.rows.iter().map(|row| row.raw_key.as_slice()).zip(0..).collect(),
            counts: &self,
            mapped: mapped_by_name(recording),
            images: &recording.images,
            done: HashSet::new(),
        };
        for program in programs(recording) {
            let node = grown.tree.below(0, recording.path(program));
            grown.grow(node, program);
        }
        for row in &self.rows.rows {
            let is_own = OWN_FILES.contains(&row.raw_key.as_slice());
            let above = grown.tree.below(0, if is_own { OWN } else { BY_NAME });
            grown.hang(above, &row.raw_key);
        }
        grown.tree.rows(MOST)
    }
}

struct LibraryTree<'a> {
    tree: CountTree,
    counts: &'a LibraryCounts,
    /// Rows by name.
    places: HashMap<&'a [u8], usize>,
    /// Mapped files by their names.
    mapped: HashMap<&'a [u8], PathId>,
    images: &'a BTreeMap<PathId, MappedElf>,
    /// The names that have their place.
    done: HashSet<Vec<u8>>,
}

impl LibraryTree<'_> {
    /// Hangs a library below a node, and below it what it needs.
    fn hang(&mut self, above: u32, name: &[u8]) {
        if let Some((node, Some(file))) = self.hang_one(above, name) {
            self.grow(node, file);
        }
    }

    fn hang_one(&mut self, above: u32, name: &[u8]) -> Option<(u32, Option<PathId>)> {
        if !self.done.insert(name.to_vec()) {
            return None;
        }
        let row = self.places.get(name).copied();
        let found = row.and_then(|row| found(&self.counts.rows.rows[row]));
        let node = self.tree.below(above, found.unwrap_or(name));
        for (cause, uses) in
            row.into_iter().flat_map(|row| self.counts.uses[row].iter().enumerate())
        {
            self.tree.count(node, cause, *uses);
        }
        Some((node, self.mapped.get(name).copied()))
    }

    /// Hangs what a file needs below it, and so on, level by level.
    fn grow(&mut self, node: u32, file: PathId) {
        let images = self.images;
        let mut next = VecDeque::from([(node, file)]);
        while let Some((node, file)) = next.pop_front() {
            for name in images.get(&file).into_iter().flat_map(|image| &image.needed) {
                if let Some((below, Some(file))) = self.hang_one(node, name.as_bytes()) {
                    next.push_back((below, file));
                }
            }
        }
    }
}

/// Where a library was found most often.
fn found(row: &QueryRow) -> Option<&[u8]> {
    Some(row.search.as_ref()?.found.first()?.raw_path.as_slice())
}

/// The files that were executed, in order, each once.
fn programs(recording: &Recording) -> Vec<PathId> {
    let mut known = HashSet::new();
    let execs = recording.processes.iter().flat_map(|process| &process.execs);
    execs.map(|exec| exec.image).filter(|image| known.insert(*image)).collect()
}

/// Mapped files by soname, and by the name of the file.
fn mapped_by_name(recording: &Recording) -> HashMap<&[u8], PathId> {
    let mut names = HashMap::new();
    for (path, image) in &recording.images {
        let file = recording.path(*path).rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        for name in image.soname.iter().map(String::as_bytes).chain([file]) {
            names.entry(name).or_insert(*path);
        }
    }
    names
}
