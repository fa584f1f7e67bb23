//! The directories below a path.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use recording::query::python::CACHE;

/// A directory and all below it, by name; symbolic links are not followed. What cannot be read is
/// told.
pub(crate) fn directories_below(
    top: &Path,
    mut unreadable: impl FnMut(&Path),
) -> io::Result<Vec<PathBuf>> {
    let mut directories = Vec::new();
    let mut open = vec![top.to_owned()];
    let mut entries = fs::read_dir(top).map(Some)?;
    while let Some(directory) = open.pop() {
        let listed = entries.take().map_or_else(|| fs::read_dir(&directory), Ok);
        let Ok(listed) = listed else {
            unreadable(&directory);
            continue;
        };
        let mut below: Vec<_> = listed
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter(|entry| entry.file_name().as_bytes() != CACHE)
            .map(|entry| entry.path())
            .collect();
        below.sort_by(|a, b| b.cmp(a));
        open.extend(below);
        directories.push(directory);
    }
    Ok(directories)
}
