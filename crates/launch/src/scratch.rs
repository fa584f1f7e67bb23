//! Room for what is kept for a moment. A full disk, or none that can be written to, is no reason
//! not to run a command: files are kept in memory, and directories where there is room.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};
use tempfile::TempDir;

/// An empty file that can be written and read, and goes with its last descriptor. It lies in
/// memory (Linux 3.17), or else where temporary files do.
///
/// # Errors
/// Where there is room in neither.
pub fn scratch_file() -> io::Result<File> {
    match memfd_create("becalm", MemfdFlags::CLOEXEC) {
        Ok(file) => Ok(file.into()),
        Err(_) => first_place(tempfile::tempfile_in),
    }
}

/// A directory that goes with the value, with what `fill` puts there: where temporary files lie
/// (`TMPDIR`, `/tmp`), or else where this node has memory or the user a directory.
///
/// # Errors
/// That of the first place, where none will do.
pub fn scratch_directory<T>(
    prefix: &str,
    mut fill: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<(TempDir, T)> {
    first_place(|place| {
        let directory = tempfile::Builder::new().prefix(prefix).tempdir_in(place)?;
        let filled = fill(directory.path())?;
        Ok((directory, filled))
    })
}

/// What the first place gives that gives anything; else the error of the first of them.
fn first_place<T>(mut make: impl FnMut(PathBuf) -> io::Result<T>) -> io::Result<T> {
    let mut refused = None;
    for place in places() {
        match make(place.clone()) {
            Ok(made) => return Ok(made),
            Err(error) => refused = refused.or(Some((place, error))),
        }
    }
    let (place, error) = refused.unwrap_or_else(|| ("/tmp".into(), io::ErrorKind::NotFound.into()));
    Err(io::Error::new(error.kind(), format!("{}: {error}", place.display())))
}

fn places() -> Vec<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = [std::env::temp_dir(), "/tmp".into(), "/dev/shm".into(), "/var/tmp".into()];
    own.into_iter().chain(session).filter(|place| place.is_absolute()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_lies_where_what_is_to_be_in_it_can_be_written() {
        let mut tried = Vec::new();
        let (directory, number) = scratch_directory("becalm-test-", |directory| {
            tried.push(directory.to_owned());
            match tried.len() {
                1 => Err(io::ErrorKind::StorageFull.into()),
                _ => Ok(7),
            }
        })
        .unwrap();
        assert_eq!((number, tried.last().map(PathBuf::as_path)), (7, Some(directory.path())));
        assert!(directory.path().is_dir() && !tried[0].exists());
    }
}
