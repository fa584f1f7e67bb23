//! A tree of directories removed, whatever their modes are.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Removes a directory and all that is in it, if it is there.
///
/// # Errors
/// Those of changing a mode, listing and removing.
pub(crate) fn remove_tree(directory: &Path) -> io::Result<()> {
    // A directory that cannot be written to cannot be emptied.
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        let Ok(there) = fs::symlink_metadata(&directory) else { continue };
        if there.mode() & 0o700 != 0o700 {
            fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
        }
        let entries = fs::read_dir(&directory)?.flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(directories.map(|entry| entry.path()));
    }
    if_there(fs::remove_dir_all(directory))
}

/// What is not there is removed.
pub(crate) fn if_there(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
