//! Files that are bound while they are packed into an image: only what the image holds is named.
//!
//! An image lies over the paths that it was made of, so a name that a list of absolute directories
//! found stays absolute: symbolic links from elsewhere lead to a library, and `$ORIGIN` would then be
//! another directory. What a list of `$ORIGIN`s found is named by `$ORIGIN`, and moves as before.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::collect::ElfFileNames;
use super::pins::Pin;
use super::reasons::SearchedReason;
use super::resolve::{LoaderRun, ResolvedBy};
use super::through::Through;
use super::wanted::{BindFacts, list};
use super::way::Ways;
use crate::FileId;

/// Through a list of fewer `$ORIGIN` directories a plain name is found as fast, and the loader knows
/// it by the second time.
const WORTH_NAMING: usize = 3;

/// The paths that are packed; none where files are bound in place.
#[derive(Debug)]
pub(super) struct PackedPaths<'a>(Ways<'a>);

impl<'a> PackedPaths<'a> {
    pub fn new(packed: &'a [PathBuf]) -> PackedPaths<'a> {
        PackedPaths(Ways::new(packed))
    }

    pub fn is_image(&self) -> bool {
        !self.0.within().is_empty()
    }

    pub fn hold(&self, path: &Path) -> bool {
        self.0.within().iter().any(|packed| path.starts_with(packed))
    }

    /// Why a name is not bound in an image: what serves it in a start is not in the image, or comes
    /// after directories that are not, where another may be tomorrow.
    pub fn refuses(
        &self,
        file: &ElfFileNames,
        name: &OsStr,
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
            Through::Plain => {}
            Through::Origin if !run.is_musl && is_worth_naming(file) => {}
            _ => return Some(SearchedReason::Relocatable),
        }
        let is_led = self.0.lead_to(&directories(file, &run.members[of].path), name, &target.path);
        (!is_led).then_some(SearchedReason::AskedBefore)
    }

    /// Whether a list has directories that are not packed, or one whose place only a start tells.
    fn leave(&self, file: &ElfFileNames) -> bool {
        let Some((list, _)) = list(file) else { return false };
        list.as_bytes().contains(&b'$')
            || !directories(file, file.path()).iter().all(|directory| self.0.holds(directory))
    }
}

/// Whether a list has nothing but `$ORIGIN`s, and more of them than are found as fast.
fn is_worth_naming(file: &ElfFileNames) -> bool {
    let Some((list, _)) = list(file) else { return false };
    let list = list.as_bytes();
    list.split(|byte| *byte == b':').count() >= WORTH_NAMING
        && list.split(|byte| *byte == b':').all(|part| from_origin(part).is_some())
}

/// What follows `$ORIGIN` in a directory of a list.
fn from_origin(directory: &[u8]) -> Option<&[u8]> {
    let rest = [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(|it| directory.strip_prefix(*it))?;
    (rest.is_empty() || rest.starts_with(b"/") && !rest.contains(&b'$')).then_some(rest)
}

/// The directories of a file's list, where it is opened by this path; one with no name for what only
/// a start tells.
fn directories(file: &ElfFileNames, path: &Path) -> Vec<PathBuf> {
    list(file).map(|(list, _)| directories_of(list, path)).unwrap_or_default()
}

/// The directories of a list, of a file that is opened by this path.
pub(super) fn directories_of(list: &OsStr, path: &Path) -> Vec<PathBuf> {
    let parts = list.as_bytes().split(|byte| *byte == b':');
    let origin = path.parent().unwrap_or(Path::new("/"));
    let whole = |part: &[u8]| match from_origin(part) {
        Some(rest) => {
            let rest: PathBuf = Path::new(OsStr::from_bytes(rest)).components().skip(1).collect();
            origin.join(rest)
        }
        // The loader puts something else there.
        None if part.contains(&b'$') => PathBuf::new(),
        // Without slashes at the end, or twice.
        None => Path::new(OsStr::from_bytes(part)).components().collect(),
    };
    parts.map(whole).collect()
}

impl BindFacts<'_> {
    /// How a need is named that a list of `$ORIGIN`s leads to.
    pub fn beside(&self, number: usize, entry: usize) -> Option<Vec<u8>> {
        self.places.of(self.files[number].id).find_map(|(run, member)| {
            let target = run.members[member].needed.get(entry).copied().flatten()?;
            run.beside(member, target)
        })
    }

    /// Whether some name of a file that is packed is still found by its list: all others are bound,
    /// or the system's, which no packed directory has.
    pub fn leads_by_list(&self, number: usize) -> bool {
        let file = &self.files[number];
        if self.packed.leave(file) {
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
