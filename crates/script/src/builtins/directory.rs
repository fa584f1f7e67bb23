use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::BuiltinsError;

/// Directories of this node, the better first: every bash that starts opens what is put there, so
/// it is to be none of the shared filesystem. A relative one is none: each bash would look for it
/// where it then is, and read what somebody else has put there.
pub(super) fn places() -> Vec<PathBuf> {
    let session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = session.filter(|path| path.is_dir());
    // Where one has no room, forbids execution, or has another user's of that name, the next may do.
    let own = [env::temp_dir(), "/tmp".into(), "/dev/shm".into(), "/var/tmp".into()];
    session.into_iter().chain(own).filter(|path| path.is_absolute()).collect()
}

/// A directory for this user alone.
pub(super) fn own(place: &Path) -> Result<PathBuf, BuiltinsError> {
    let user = rustix::process::getuid().as_raw();
    let own = place.join(format!("becalm-{user}"));
    private(&own, user)?;
    Ok(own)
}

/// A directory of one content in it: another never takes its place.
pub(super) fn of_content(
    place: &Path,
    libraries: &[&[u8]],
    parts: &[&[u8]],
) -> Result<PathBuf, BuiltinsError> {
    let own = own(place)?;
    let mut hasher = DefaultHasher::new();
    for part in libraries.iter().chain(parts) {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
    let directory = own.join(format!("builtins-{:016x}", hasher.finish()));
    private(&directory, rustix::process::getuid().as_raw())?;
    Ok(directory)
}

fn private(directory: &Path, user: u32) -> Result<(), BuiltinsError> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(BuiltinsError::at(directory)(error));
        }
        _ => {}
    }
    let about = fs::symlink_metadata(directory).map_err(BuiltinsError::at(directory))?;
    if about.is_dir() && about.uid() == user && about.mode() & 0o077 == 0 {
        Ok(())
    } else {
        Err(BuiltinsError::NotOurs(directory.to_path_buf()))
    }
}

/// Sees that a file has this content; a bash that reads it at this moment sees all of it.
pub(super) fn keep(path: &Path, content: &[u8]) -> Result<(), BuiltinsError> {
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .map_err(BuiltinsError::at(&new))?;
    file.write_all(content).map_err(BuiltinsError::at(&new))?;
    fs::rename(&new, path).map_err(BuiltinsError::at(path))
}
