//! Waits until what was written is on the disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::directory_times::DirectoryTimes;
use crate::path_map::PathMap;
use crate::{Error, pool};

/// From how many files on a filesystem is synced as a whole. Fewer are synced one by one, on
/// several threads, so that becalm does not wait for what others have written.
const MANY: usize = 32;

/// How new files come to be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncMethod {
    /// Each by fsync(2).
    Each,
    /// All by syncfs(2), when the last is written.
    Filesystem,
}

impl SyncMethod {
    /// The way that suits a number of files.
    pub(crate) fn for_files(files: usize) -> SyncMethod {
        if files >= MANY && syncfs_tells_errors() {
            SyncMethod::Filesystem
        } else {
            SyncMethod::Each
        }
    }

    /// What is to be done when one file is written.
    pub(crate) fn finish(self, file: &File, path: &Path) -> Result<(), Error> {
        match self {
            SyncMethod::Each => file.sync_all().map_err(|error| Error::at("fsync", path, error)),
            SyncMethod::Filesystem => Ok(()),
        }
    }
}

/// Directories, and their devices where these are known.
pub(crate) type TouchedDirectories = PathMap<Option<u64>>;

/// Filesystems, opened before anything is written: syncfs(2) reports what could not be written
/// since then.
pub(crate) struct Filesystems(Vec<(PathBuf, File)>);

impl Filesystems {
    /// Those that these directories are on.
    pub(crate) fn of(
        directories: &TouchedDirectories,
        held: &DirectoryTimes,
    ) -> Result<Filesystems, Error> {
        let mut filesystems = BTreeMap::new();
        for (directory, device) in directories.iter() {
            if device.is_some_and(|device| filesystems.contains_key(&device)) {
                continue;
            }
            // Most are on the same one: to ask is a third of what opening takes.
            let at = held.at(directory)?;
            let found = at.device().map_err(|error| Error::at("fstat", directory, error))?;
            if filesystems.contains_key(&found) {
                continue;
            }
            let open = at.reopen().map_err(|error| Error::at("open", directory, error))?;
            filesystems.insert(found, (directory.to_owned(), open));
        }
        Ok(Filesystems(filesystems.into_values().collect()))
    }

    /// Waits until all that was written to them is on the disk.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let sync = |(directory, open): &(PathBuf, File)| {
            rustix::fs::syncfs(open).map_err(|error| Error::at("syncfs", directory, error))
        };
        self.0.iter().try_for_each(sync)
    }
}

/// Syncs what was renamed in these directories, wherever those that are held have been moved.
pub(crate) fn directories(
    directories: &TouchedDirectories,
    held: &DirectoryTimes,
    threads: usize,
) -> Result<(), Error> {
    if SyncMethod::for_files(directories.len()) == SyncMethod::Filesystem {
        return Filesystems::of(directories, held)?.sync();
    }
    let directories: Vec<_> = directories.iter().map(|(directory, _)| directory).collect();
    let sync = |_, directory: &&Path| {
        let open = held.at(directory)?.reopen().map_err(std::io::Error::from);
        open.and_then(|open| open.sync_all())
            .map_err(|error| Error::at("sync the directory", directory, error))
    };
    pool::each(threads, &directories, sync).map(drop)
}

/// Whether syncfs(2) reports that something could not be written: since Linux 5.8 (its man page).
fn syncfs_tells_errors() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| {
        let kernel = rustix::system::uname();
        let release = kernel.release().to_string_lossy();
        let mut numbers = release.split(|char: char| !char.is_ascii_digit());
        let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
        (next(), next()) >= (5, 8)
    })
}
