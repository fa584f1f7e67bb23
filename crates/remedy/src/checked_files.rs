//! What a check has found out about files and directories, so that whoever applies a plan that he has just
//! checked does not ask all of it again.
//!
//! Nothing is taken on trust: a file is rewritten only if all that stat(2) says of it is as it was, before it
//! was read and when the new one takes its place; its owner, permissions, lists and flags cannot change without
//! its change time. What has become of a directory meanwhile, the calls in it will tell, and what was done is
//! then taken back.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::attributes::FileAttributes;
use crate::held_directories::{self, HeldDirectories};
use crate::path_map::PathMap;
use crate::stamp::FileStamp;
use crate::{Seen, writers};

/// What was found. Hand it to [`crate::obstacles`] and then, by [`crate::Options::checked`], to
/// [`crate::apply`].
#[derive(Debug, Default)]
pub struct CheckedFiles {
    checked: Mutex<Checked>,
    held: HeldDirectories,
}

#[derive(Debug, Default)]
struct Checked {
    found: PathMap<FoundFile>,
    files: PathMap<(Vec<PathBuf>, Seen, CheckedFile)>,
    /// Their devices.
    directories: PathMap<u64>,
}

/// What is found of an open file, beside its content.
#[derive(Clone, Debug)]
pub(crate) struct FoundFile {
    pub(crate) stamp: FileStamp,
    pub(crate) attributes: FileAttributes,
    pub(crate) links: u64,
    /// How many bytes it takes on the disk.
    pub(crate) taken: u64,
    /// Whether somebody has it open for writing.
    pub(crate) is_written: bool,
}

impl FoundFile {
    pub(crate) fn of(file: &File, found: &Metadata) -> Result<FoundFile, Errno> {
        Ok(FoundFile {
            stamp: FileStamp::of(found),
            attributes: FileAttributes::of(file, found)?,
            links: found.nlink(),
            taken: found.blocks().saturating_mul(512),
            is_written: writers::is_written(file),
        })
    }
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
    /// Nothing is known yet, and there will be much. To be made before the process has several threads, which takes
    /// less time, and is no condition.
    pub fn of_many() -> CheckedFiles {
        held_directories::make_room();
        CheckedFiles::default()
    }

    /// Finds out about a file that is open because a plan is made of its content, which was read after
    /// fstat(2) had said `seen` of it: it need not be looked at again. The content itself is read anew when it is
    /// written: whoever has the file mapped changes it without a sign that stat(2) would tell. Whether it may
    /// have an access control list.
    pub fn look(&self, path: &Path, file: &File, seen: &Metadata) -> bool {
        // What cannot be told is asked again, and why is said then.
        let Ok(found) = FoundFile::of(file, seen) else { return true };
        let has_list = found.attributes.has_access_list();
        self.lock().found.insert(path, found);
        has_list
    }

    /// The directories that were reached, held open.
    pub(crate) fn held(&self) -> &HeldDirectories {
        &self.held
    }

    /// What was found of the file at a path.
    pub(crate) fn found(&self, path: &Path) -> Option<FoundFile> {
        self.lock().found.get(path).cloned()
    }

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
        self.lock().files.insert(path, found);
    }

    /// The device of a directory in which names can be made.
    pub(crate) fn directory(&self, path: &Path) -> Option<u64> {
        self.lock().directories.get(path).copied()
    }

    pub(crate) fn keep_directory(&self, path: &Path, device: u64) {
        self.lock().directories.insert(path, device);
    }

    fn lock(&self) -> MutexGuard<'_, Checked> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
