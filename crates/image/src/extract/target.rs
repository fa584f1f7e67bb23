//! Where an image is unpacked to: a new directory, or one that is empty.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::ExtractError;

/// The directory that is to hold what is unpacked.
pub(super) struct ExtractTarget {
    /// Its path; of one that is there without symbolic links.
    pub directory: PathBuf,
    /// Whether it is there, and another one will take its place.
    pub is_there: bool,
}

impl ExtractTarget {
    /// Refuses what is not empty, and what no other directory can take the place of.
    pub fn of(directory: &Path) -> Result<ExtractTarget, ExtractError> {
        let mut entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match directory.is_symlink() {
                    true => Err(ExtractError::unfit(directory, "is a link to nothing")),
                    false => Ok(ExtractTarget { directory: directory.to_owned(), is_there: false }),
                };
            }
            listed => listed.map_err(ExtractError::at("list", directory))?,
        };
        if entries.next().is_some() {
            return Err(ExtractError::unfit(directory, "exists, and is not empty"));
        }
        let real = directory.canonicalize().map_err(ExtractError::at("find", directory))?;
        match why_fixed(&real) {
            None => Ok(ExtractTarget { directory: real, is_there: true }),
            Some(why) => {
                let why = format!("{why}, so no other can take its place; name a new directory");
                Err(ExtractError::unfit(directory, why))
            }
        }
    }
}

fn why_fixed(directory: &Path) -> Option<&'static str> {
    if std::env::current_dir().is_ok_and(|own| own == directory) {
        return Some("is the working directory");
    }
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    if proc::mount_entries(&mounts).any(|mount| mount.point == directory) {
        return Some("is where something is mounted");
    }
    let user = rustix::process::geteuid();
    let is_others = |there: fs::Metadata| there.uid() != user.as_raw();
    if !user.is_root() && directory.metadata().is_ok_and(is_others) {
        return Some("belongs to somebody else");
    }
    None
}
