//! Directories of symbolic links that stand for a long list of directories.
//!
//! A farm holds one link for each library that the directories of a list offer, the first that
//! offers a name winning, as in the search. So `dlopen` by name finds what it found before, in
//! one directory instead of a hundred.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::bars::{Bars, LOADED, USED};
use super::collect::{OWN_DIRECTORY, entries};
use super::places::depends_on_place;
use super::way::{Way, way};
use crate::World;
use crate::object::is_library_name;

/// A list that names no more directories than this is short enough.
const SHORT: usize = 2;

/// A directory with more libraries than this is one that many things share: it stays in the list.
const CROWDED: usize = 400;

/// Sub-directories that the loader looks into before the directory itself (glibc,
/// sysdeps/**/dl-procinfo.h, elf/dl-hwcaps.c): a link in a farm would pass them over.
#[rustfmt::skip]
pub(super) const FOR_HARDWARE: &[&str] = &[
    "glibc-hwcaps", "tls", "haswell", "xeon_phi", "avx512_1", "x86_64", "sse2", "i686",
    "aarch64", "atomics", "cpuid",
];

/// Farms in the making. They are named by what is in them, so that equal ones are one, and so
/// that planning again comes to the same names.
#[derive(Debug, Default)]
pub(super) struct Farms {
    /// Each farm's directory, and what it holds: a link's name, and where it leads.
    pub made: BTreeMap<PathBuf, BTreeMap<OsString, PathBuf>>,
    offers: HashMap<PathBuf, Offer>,
    /// Whether a library of a directory must be opened where it lies.
    bound_to_place: HashMap<PathBuf, bool>,
    bars: Bars,
}

impl Farms {
    /// The list with farms below `root` instead of its plain directories; none where that would be
    /// no shorter. An empty list is one whose directories offer nothing.
    ///
    /// What is relative, holds `$ORIGIN` or the like, is crowded, has variants for hardware, or
    /// does not exist here (but may on the next machine) stays as it is, in its place; and so does
    /// a directory with a library that finds others through `$ORIGIN`, which would be the farm, or
    /// that not everyone may read who finds the farm.
    pub fn instead_of(&mut self, world: &dyn World, root: &Path, list: &[u8]) -> Option<Vec<u8>> {
        let mut parts: Vec<FarmPart> = Vec::new();
        let mut seen = BTreeSet::new();
        for directory in
            list.split(|byte| *byte == b':').filter(|directory| seen.insert(*directory))
        {
            let path = Path::new(OsStr::from_bytes(directory));
            let stays =
                self.is_bound_to_place(world, root, path) || self.is_closed(world, root, path);
            match self.offered(world, root, path).filter(|_| !stays) {
                None => parts.push(FarmPart::Plain(directory.to_vec())),
                Some(names) => {
                    if !matches!(parts.last(), Some(FarmPart::Farm(_))) {
                        parts.push(FarmPart::Farm(BTreeMap::new()));
                    }
                    let Some(FarmPart::Farm(links)) = parts.last_mut() else { continue };
                    for name in names {
                        links.entry(name.clone()).or_insert_with(|| path.join(name));
                    }
                }
            }
        }
        parts.retain(|part| !matches!(part, FarmPart::Farm(links) if links.is_empty()));
        let shorter = seen.len() > SHORT && parts.len() < seen.len();
        shorter.then(|| {
            let texts: Vec<Vec<u8>> = parts.into_iter().map(|part| self.text(root, part)).collect();
            texts.join(&b':')
        })
    }

    /// Whether a directory of the list offers a library of such a name.
    pub fn offer(&mut self, world: &dyn World, list: &[u8], wanted: fn(&OsStr) -> bool) -> bool {
        list.split(|byte| *byte == b':').any(|directory| {
            let path = Path::new(OsStr::from_bytes(directory));
            // What may not be in a farm may offer anything.
            self.offered(world, Path::new("/"), path)
                .is_none_or(|names| names.iter().any(|name| wanted(name)))
        })
    }

    /// The names of all libraries that the directories of the list offer; none where that is not
    /// known.
    pub fn all_offered(
        &mut self,
        world: &dyn World,
        root: &Path,
        list: &[u8],
    ) -> Option<BTreeSet<OsString>> {
        let mut all = BTreeSet::new();
        for directory in list.split(|byte| *byte == b':') {
            let path = Path::new(OsStr::from_bytes(directory));
            all.extend(self.offered(world, root, path)?.iter().cloned());
        }
        Some(all)
    }

    /// A farm of exactly these links.
    pub fn of(&mut self, root: &Path, links: BTreeMap<OsString, PathBuf>) -> PathBuf {
        let texts = links
            .iter()
            .flat_map(|(name, target)| [name.as_bytes(), target.as_os_str().as_bytes()]);
        let directory = root.join(OWN_DIRECTORY).join("farm").join(short_digest(texts));
        self.made.insert(directory.clone(), links);
        directory
    }

    fn text(&mut self, root: &Path, part: FarmPart) -> Vec<u8> {
        match part {
            FarmPart::Plain(directory) => directory,
            FarmPart::Farm(links) => self.of(root, links).into_os_string().into_vec(),
        }
    }

    /// Whether some who find the farm may not load a library of the directory: they go on to the
    /// next directory, where a link would not lead.
    fn is_closed(&mut self, world: &dyn World, root: &Path, directory: &Path) -> bool {
        let paths: Vec<PathBuf> = match self.offered(world, root, directory) {
            Some(names) => names.iter().map(|name| directory.join(name)).collect(),
            None => return false,
        };
        let passed = self.bars.of(root, USED);
        paths.iter().any(|path| !self.bars.of(path, LOADED).is_subset(&passed))
    }

    /// Whether the loader must open a library of the directory by its own path.
    fn is_bound_to_place(&mut self, world: &dyn World, root: &Path, directory: &Path) -> bool {
        if let Some(known) = self.bound_to_place.get(directory) {
            return *known;
        }
        let depends = |name: &OsString| match world.open(&directory.join(name)).map(|it| it.object)
        {
            Ok(Ok(object)) => depends_on_place(&object),
            // The loader cannot load it either: by any path.
            Ok(Err(_)) | Err(_) => false,
        };
        let is_bound =
            self.offered(world, root, directory).is_some_and(|names| names.iter().any(depends));
        self.bound_to_place.insert(directory.to_owned(), is_bound);
        is_bound
    }

    /// The libraries in a directory, where they may be in a farm instead.
    fn offered(
        &mut self,
        world: &dyn World,
        root: &Path,
        directory: &Path,
    ) -> Option<&Vec<OsString>> {
        let known =
            self.offers.entry(directory.to_owned()).or_insert_with(|| Offer::of(world, directory));
        match known {
            Offer::These(names) => Some(names),
            // A prefix of this very tree that has no such directory will not get one, unless a link
            // leads elsewhere.
            Offer::Absent if is_absent_in(root, directory) => Some(const { &Vec::new() }),
            Offer::Absent | Offer::Unsuited => None,
        }
    }
}

/// Whether nothing but the tree itself says that a directory is not there.
fn is_absent_in(root: &Path, directory: &Path) -> bool {
    directory.starts_with(root) && way(directory, &[root.to_owned()]) == Way::Absent
}

/// What a directory of a list offers.
#[derive(Debug)]
enum Offer {
    These(Vec<OsString>),
    Absent,
    Unsuited,
}

impl Offer {
    fn of(world: &dyn World, directory: &Path) -> Offer {
        let plain = directory.is_absolute() && !directory.as_os_str().as_bytes().contains(&b'$');
        if !plain || directory.components().any(|part| part.as_os_str() == OWN_DIRECTORY) {
            return Offer::Unsuited;
        }
        match libraries(world, directory) {
            Some(names) => Offer::These(names),
            None if directory.exists() => Offer::Unsuited,
            None => Offer::Absent,
        }
    }
}

enum FarmPart {
    Plain(Vec<u8>),
    Farm(BTreeMap<OsString, PathBuf>),
}

/// The libraries in a directory; none if it cannot be listed, is crowded, or has variants.
fn libraries(world: &dyn World, directory: &Path) -> Option<Vec<OsString>> {
    let mut names = Vec::new();
    for (name, _) in entries(world, directory).ok()? {
        if FOR_HARDWARE.iter().any(|variant| name == *variant) {
            return None;
        }
        let bytes = name.as_bytes();
        if is_library_name(bytes) {
            names.push(name);
        }
        if names.len() > CROWDED {
            return None;
        }
    }
    names.sort_unstable();
    Some(names)
}

/// A name for what consists of these texts, none of which holds a NUL.
pub(super) fn short_digest<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut all = Vec::new();
    for text in texts {
        all.extend_from_slice(text);
        all.push(0);
    }
    let mut digest = remedy::Digest::of(&all).to_string();
    digest.truncate(16);
    digest
}

/// Where a file's farms go: below the directory that was named, or beside the file's `bin` or
/// `lib`.
pub(super) fn root_of(file: &Path, named: &[PathBuf]) -> PathBuf {
    let below = |root: &&PathBuf| root.as_path() != file && file.starts_with(root);
    if let Some(root) = named.iter().filter(below).min_by_key(|root| root.as_os_str().len()) {
        return root.clone();
    }
    let directory = file.parent().unwrap_or(Path::new("/"));
    let holds_code = ["bin", "sbin", "lib", "lib64", "libexec"];
    match directory.parent() {
        Some(prefix) if holds_code.iter().any(|name| directory.ends_with(name)) => {
            prefix.to_owned()
        }
        _ => directory.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Disk;

    fn store() -> tempfile::TempDir {
        let store = tempfile::tempdir().unwrap();
        for file in ["a/libx.so.1", "b/libx.so.1", "b/liby.so", "c/readme", "d/tls/libz.so"] {
            let path = store.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        store
    }

    #[test]
    fn the_first_directory_that_offers_a_name_wins_and_what_has_variants_stays() {
        let store = store();
        let root = store.path();
        let at = |name: &str| root.join(name).into_os_string().into_vec();
        let list = [at("a"), at("b"), at("c"), at("d"), b"$ORIGIN/lib".to_vec(), at("b")];
        let mut farms = Farms::default();
        let text = farms.instead_of(&Disk::new(), root, &list.join(&b':')).unwrap();
        let (directory, links) = farms.made.first_key_value().unwrap();
        let expected = [directory.as_os_str().as_bytes(), &at("d"), b"$ORIGIN/lib"].join(&b':');
        assert_eq!(text, expected);
        let leads = |name: &str| links.get(OsStr::new(name)).cloned();
        assert_eq!(leads("libx.so.1"), Some(root.join("a/libx.so.1")));
        assert_eq!(leads("liby.so"), Some(root.join("b/liby.so")));
        assert_eq!(links.len(), 2);
    }

    #[test]
    fn a_short_list_stays() {
        let store = store();
        let list = format!("{0}/a:{0}/b", store.path().display());
        let text = Farms::default().instead_of(&Disk::new(), store.path(), list.as_bytes());
        assert_eq!(text, None);
    }

    #[test]
    fn the_same_links_are_the_same_farm() {
        let store = store();
        let list = ["a", "b", "c"].map(|name| format!("{}/{name}", store.path().display()));
        let text =
            |list: &str| Farms::default().instead_of(&Disk::new(), store.path(), list.as_bytes());
        assert_eq!(
            text(&list.join(":")),
            text(&format!("{}/none:{}", store.path().display(), list.join(":")))
        );
    }
}
