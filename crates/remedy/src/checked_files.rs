//! What a check has found out about files and directories, so that whoever applies a plan that he has just
//! checked does not ask all of it again.
//!
//! Nothing is taken on trust: a file is rewritten only if all that stat(2) says of it is as it was, before and
//! after it is read; its owner, permissions, lists and flags cannot change without its change time. What has
//! become of a directory meanwhile, the calls in it will tell, and what was done is then taken back.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Seen;
use crate::attributes::FileAttributes;
use crate::stamp::FileStamp;

/// What was found. Hand it to [`crate::obstacles`] and then, by [`crate::Options::checked`], to
/// [`crate::apply`].
#[derive(Debug, Default)]
pub struct CheckedFiles(Mutex<Checked>);

#[derive(Debug, Default)]
struct Checked {
    files: HashMap<PathBuf, (Vec<PathBuf>, Seen, CheckedFile)>,
    directories: HashMap<PathBuf, u64>,
}

/// A file that can be rewritten.
#[derive(Clone, Debug)]
pub(crate) struct CheckedFile {
    /// Every name of it, without symbolic links in them.
    pub(crate) names: Vec<PathBuf>,
    pub(crate) attributes: FileAttributes,
    /// Of each name, what was found at it.
    pub(crate) stamps: Vec<FileStamp>,
    /// How many bytes it takes on the disk.
    pub(crate) taken: u64,
}

impl CheckedFiles {
    /// What was found of a file that a plan calls by these names, if the plan saw the same of it.
    pub(crate) fn file(&self, path: &Path, also: &[PathBuf], seen: &Seen) -> Option<CheckedFile> {
        let checked = self.lock();
        let (others, as_seen, found) = checked.files.get(path)?;
        (others == also && as_seen == seen).then(|| found.clone())
    }

    pub(crate) fn keep_file(
        &self,
        path: &Path,
        also: &[PathBuf],
        seen: &Seen,
        found: &CheckedFile,
    ) {
        let found = (also.to_vec(), *seen, found.clone());
        self.lock().files.insert(path.to_owned(), found);
    }

    /// The device of a directory in which names can be made.
    pub(crate) fn directory(&self, path: &Path) -> Option<u64> {
        self.lock().directories.get(path).copied()
    }

    pub(crate) fn keep_directory(&self, path: &Path, device: u64) {
        self.lock().directories.insert(path.to_owned(), device);
    }

    fn lock(&self) -> MutexGuard<'_, Checked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
