//! Files that are bound while they are packed into an image: only what the image holds is named.
//!
//! An image lies over the paths that it was made of, so a name that a list of absolute directories
//! found stays absolute: symbolic links from elsewhere lead to a library, and `$ORIGIN` would then be
//! another directory. What a list of `$ORIGIN`s found is named by `$ORIGIN`, and moves as before.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::collect::ElfFileNames;
use super::pins::{Pin, SearchedReason};
use super::resolve::{LoaderRun, ResolvedBy};
use super::through::Through;
use super::wanted::{BindFacts, list};
use crate::FileId;

/// Through a list of fewer `$ORIGIN` directories a plain name is found as fast, and the loader knows
/// it by the second time.
const WORTH_NAMING: usize = 3;

/// The paths that are packed; none where files are bound in place.
#[derive(Clone, Copy)]
pub(super) struct PackedPaths<'a>(pub &'a [PathBuf]);

impl PackedPaths<'_> {
    pub fn is_image(self) -> bool {
        !self.0.is_empty()
    }

    pub fn hold(self, path: &Path) -> bool {
        self.0.iter().any(|packed| path.starts_with(packed))
    }

    /// Why a name is not bound in an image: what serves it in a start is not in the image, or comes
    /// after directories that are not, where another may be tomorrow.
    pub fn refuses(
        self,
        file: &ElfFileNames,
        to: Option<FileId>,
        found: ResolvedBy,
        run: &LoaderRun,
    ) -> Option<SearchedReason> {
        if !self.is_image() {
            return None;
        }
        let Some(target) = run.members.iter().find(|member| Some(member.id) == to) else {
            return Some(SearchedReason::Outside);
        };
        let ResolvedBy::ByList { of, through } = found else {
            return Some(SearchedReason::Outside);
        };
        if run.members[of].id != file.id {
            return Some(SearchedReason::Inherited);
        }
        if !target.path.canonicalize().is_ok_and(|real| self.hold(&real)) {
            return Some(SearchedReason::Outside);
        }
        match through {
            Through::Plain if self.lead_to(file, &target.path) => None,
            Through::Plain => Some(SearchedReason::Outside),
            Through::Origin if !run.is_musl && self.is_worth_naming(file) => None,
            _ => Some(SearchedReason::Relocatable),
        }
    }

    /// Whether the list of a file has nothing but packed directories up to the one that a library is
    /// in, which is packed too.
    fn lead_to(self, file: &ElfFileNames, library: &Path) -> bool {
        let Some(directory) = library.parent() else { return false };
        let directories = directories(file);
        let Some(at) = directories.iter().position(|it| it.as_path() == directory) else {
            return false;
        };
        directories[..=at].iter().all(|it| self.hold(it))
    }

    fn is_worth_naming(self, file: &ElfFileNames) -> bool {
        let directories = directories(file);
        let origin = |path: &PathBuf| {
            let text = path.as_os_str().as_bytes();
            text.starts_with(b"$ORIGIN") || text.starts_with(b"${ORIGIN}")
        };
        // One that leaves the image is one more place where a library may be tomorrow.
        let directory = file.path().parent().unwrap_or(Path::new("/"));
        let is_held = |path: &PathBuf| {
            let rest: PathBuf = path.components().skip(1).collect();
            self.hold(&normal(&directory.join(rest)))
        };
        directories.len() >= WORTH_NAMING
            && directories.iter().all(|path| origin(path) && is_held(path))
    }
}

/// The directories of a file's list.
fn directories(file: &ElfFileNames) -> Vec<PathBuf> {
    let Some((list, _)) = list(file) else { return Vec::new() };
    let parts = list.as_bytes().split(|byte| *byte == b':');
    // Without slashes at the end, or twice.
    let whole = |part: &[u8]| Path::new(std::ffi::OsStr::from_bytes(part)).components().collect();
    parts.map(whole).collect()
}

/// A path without `..`, as its text says.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

impl BindFacts<'_> {
    pub fn packed(&self) -> PackedPaths<'_> {
        PackedPaths(&self.options.packed)
    }

    /// How a need is named that a list of `$ORIGIN`s leads to: as that list names it.
    pub fn beside(&self, number: usize, entry: usize) -> Option<Vec<u8>> {
        let id = self.files[number].id;
        self.places.of(id).find_map(|(run, member)| {
            let target = &run.members[run.members[member].needed.get(entry).copied().flatten()?];
            let ResolvedBy::ByList { of, through: Through::Origin } = target.found else {
                return None;
            };
            let origin = run.members[of].path.parent()?;
            let below = target.path.as_os_str().as_bytes();
            let below = below.strip_prefix(origin.as_os_str().as_bytes())?;
            (run.members[of].id == id && below.starts_with(b"/"))
                .then(|| [&b"$ORIGIN"[..], below].concat())
        })
    }

    /// Whether some name of a file that is packed is still found by its list: all others are bound,
    /// or the system's, which no packed directory has.
    pub fn leads_by_list(&self, number: usize) -> bool {
        let file = &self.files[number];
        if !directories(file).iter().all(|directory| self.packed().hold(directory)) {
            return true;
        }
        let is_by_system = |entry: usize| {
            let mut starts = self.places.of(file.id).peekable();
            starts.peek().is_some()
                && starts.all(|(run, member)| {
                    let to = run.members[member].needed.get(entry).copied().flatten();
                    to.is_some_and(|to| run.members[to].found == ResolvedBy::BySystem)
                })
        };
        let pins = self.pins.by_file.get(&number).map_or(&[][..], Vec::as_slice);
        pins.iter().enumerate().any(|(entry, pin)| match pin {
            Pin::Open(SearchedReason::Outside | SearchedReason::Unknown) => !is_by_system(entry),
            Pin::Open(_) => true,
            Pin::To(_) | Pin::Settled => false,
        })
    }
}
