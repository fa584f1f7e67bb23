//! Libraries of which there are several copies: wheels each bring their own, by one DT_SONAME.
//!
//! The loader takes the first that is loaded for all who ask by that name. Which one that is depends on
//! the order in which a program opens what needs them, and another run may have another order: bound to
//! the one that was first in this run, the process would then load two.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::collect::{ElfFileNames, entries};
use super::pins::Vote;
use super::resolve::{LoaderRun, LoaderRunObject, ResolvedBy};
use crate::{FileId, World};

/// What is known of copies.
pub(super) struct LibraryCopies<'a> {
    world: &'a dyn World,
    /// One file of each DT_SONAME among those that are bound; none of one that several have.
    by_soname: HashMap<&'a OsStr, Option<FileId>>,
    /// Files of a name in directories that lie side by side.
    beside: Mutex<HashMap<(PathBuf, OsString), Vec<FileId>>>,
}

impl<'a> LibraryCopies<'a> {
    pub fn new(world: &'a dyn World, files: &'a [ElfFileNames]) -> LibraryCopies<'a> {
        let mut by_soname: HashMap<&OsStr, Option<FileId>> = HashMap::new();
        for file in files {
            if let Some(soname) = &file.object.soname {
                let one = by_soname.entry(soname).or_insert(Some(file.id));
                *one = one.filter(|known| *known == file.id);
            }
        }
        LibraryCopies { world, by_soname, beside: Mutex::default() }
    }

    /// Whether there are other copies of what a list has led to.
    pub fn has_any_of(&self, vote: &Vote, runs: &[LoaderRun]) -> bool {
        if !matches!(vote.found, ResolvedBy::ByList { .. }) {
            return false;
        }
        let target = runs[vote.run].members.iter().find(|it| Some(it.id) == vote.to);
        target.is_some_and(|target| self.has(target))
    }

    fn has(&self, target: &LoaderRunObject) -> bool {
        let is_shared = |soname: &OsString| self.by_soname.get(soname.as_os_str()) == Some(&None);
        target.object.soname.as_ref().is_some_and(is_shared) || self.is_beside(target)
    }

    /// Whether a directory beside that of a library has another of its name: `numpy.libs` lies beside
    /// `scipy.libs`.
    fn is_beside(&self, target: &LoaderRunObject) -> bool {
        let directory = target.path.parent();
        let (Some(above), Some(name)) = (directory.and_then(Path::parent), target.path.file_name())
        else {
            return false;
        };
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        let found = beside
            .entry((above.to_owned(), name.to_owned()))
            .or_insert_with(|| self.files_of(above, name));
        found.iter().any(|id| *id != target.id)
    }

    fn files_of(&self, above: &Path, name: &OsStr) -> Vec<FileId> {
        let directories = entries(self.world, above).unwrap_or_default();
        let paths = directories.into_iter().map(|(directory, _)| above.join(directory).join(name));
        let found = paths.filter_map(|path| fs::metadata(path).ok());
        found.map(|it| FileId { device: it.dev(), inode: it.ino() }).collect()
    }
}
