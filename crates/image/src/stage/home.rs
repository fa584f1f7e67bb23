//! Where trees are: in a directory of this user's own, in memory of the node.

use std::fs::{self, DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::error::{self, ImageStageError};

/// TMPFS_MAGIC and RAMFS_MAGIC of statfs(2).
const MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// A directory in which this user's trees may be made.
pub(super) struct StageParent {
    /// The directory; it may be everybody's.
    pub directory: PathBuf,
    /// What is in it is in memory.
    pub in_memory: bool,
}

/// The directory that was named, or /dev/shm, or $TMPDIR where that is in memory.
pub(super) fn choose(wanted: Option<&Path>) -> Result<StageParent, ImageStageError> {
    if let Some(wanted) = wanted {
        return usable(&wanted.canonicalize().map_err(error::file(wanted, "find"))?);
    }
    let temporary = std::env::var_os("TMPDIR").map(PathBuf::from);
    let mut why = Vec::new();
    for directory in [Some(PathBuf::from("/dev/shm")), temporary].into_iter().flatten() {
        let found = directory.canonicalize().map_err(error::file(&directory, "find"));
        match found.and_then(|directory| usable(&directory)) {
            Ok(place) if place.in_memory => return Ok(place),
            Ok(_) => why.push(format!("{} is not in memory", directory.display())),
            Err(error) => why.push(error.to_string()),
        }
    }
    Err(ImageStageError::NoMemory(why.join("; ")))
}

fn usable(directory: &Path) -> Result<StageParent, ImageStageError> {
    let wrong =
        |why: &str| ImageStageError::Directory { path: directory.to_owned(), why: why.to_owned() };
    let there = fs::metadata(directory).map_err(error::file(directory, "look at"))?;
    if !there.is_dir() {
        return Err(wrong("is no directory"));
    }
    access::keeps_names(directory)
        .map_err(|why| wrong(&format!("others could replace what is made in it ({why})")))?;
    let about = rustix::fs::statvfs(directory).map_err(error::file(directory, "look at"))?;
    if about.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC) {
        return Err(wrong("is mounted noexec: no program could be started in it"));
    }
    if about.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Err(wrong("is mounted read-only"));
    }
    let kind = rustix::fs::statfs(directory).map_err(error::file(directory, "look at"))?.f_type;
    let in_memory = MEMORY.contains(&kind);
    Ok(StageParent { directory: directory.to_owned(), in_memory })
}

/// This user's own directory in it.
pub(super) struct Home {
    path: PathBuf,
}

impl Home {
    /// Makes it, or finds it; nobody else's is ever used.
    pub fn of(place: &StageParent) -> Result<Home, ImageStageError> {
        let user = rustix::process::geteuid().as_raw();
        let path = place.directory.join(format!("becalm-stage-{user}"));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error::file(&path, "make")(error));
            }
            _ => {}
        }
        let there = fs::symlink_metadata(&path).map_err(error::file(&path, "look at"))?;
        match is_own(&there, user) {
            true => Ok(Home { path }),
            false => {
                let why = format!(
                    "is not a directory that only this user can enter (mode {:o}, of user {}): \
                     nothing in it is trusted; --stage=DIR names another place",
                    there.mode() & 0o7777,
                    there.uid()
                );
                Err(ImageStageError::Directory { path, why })
            }
        }
    }

    /// The file that is locked by the users of a tree.
    pub fn lock(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.lock"))
    }

    /// The directory of a tree.
    pub fn directory(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names of all trees that are there, or were.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(".lock").map(str::to_owned)).collect()
    }

    /// Removes it, if nothing is in it.
    pub fn leave(&self) {
        let _ = fs::remove_dir(&self.path);
    }
}

fn is_own(there: &Metadata, user: u32) -> bool {
    there.is_dir() && there.uid() == user && there.mode() & 0o077 == 0
}
