//! Removes what work that did not come to its end has left beside files.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::directory_times::DirectoryTimes;
use crate::durable::{self, TouchedDirectories};
use crate::{Changed, Error};

/// Removes all of it that can be removed; what stays, and why. What is in a directory that is held open, is
/// removed there, wherever that directory has been moved.
pub(crate) fn clean<'a>(
    litter: impl Iterator<Item = &'a Path>,
    held: &DirectoryTimes,
) -> Vec<Changed> {
    let (mut directories, mut stays) = (TouchedDirectories::default(), Vec::new());
    for path in litter {
        match remove(path, held) {
            Ok(true) => drop(directories.insert(crate::work::directory_of(path), None)),
            Ok(false) => {}
            Err(error) => stays.push(stay(path, &error)),
        }
    }
    if let Err(error) = durable::directories(&directories, held, 1) {
        let first = directories.iter().next().map_or(Path::new("/"), |(path, _)| path);
        stays.push(stay(first, &error));
    }
    stays
}

fn stay(path: &Path, error: &Error) -> Changed {
    let (path, by) = (PathBuf::from(path), None);
    Changed { path, reason: format!("cannot be removed: {error}"), by }
}

/// Whether it was there.
fn remove(path: &Path, held: &DirectoryTimes) -> Result<bool, Error> {
    let directory = match held.directory(path) {
        Ok(directory) => directory,
        // What lies behind another user's link, becalm has not put there.
        Err(Error::Refused { .. }) => return Ok(false),
        Err(Error::Call { error, .. })
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
        {
            return Ok(false);
        }
        Err(Error::Call { error, .. }) if is_for_want_of_descriptors(&error) => {
            return by_path(path);
        }
        Err(error) => return Err(error),
    };
    let change = held.changing(path, &directory);
    let removed = match directory.unlink(path) {
        // unlink(2) of a directory.
        Err(Errno::ISDIR) => directory.remove_directory(path),
        removed => removed,
    };
    match removed {
        Ok(()) => {
            change.made();
            Ok(true)
        }
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(Error::at("unlink", path, error)),
    }
}

fn is_for_want_of_descriptors(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|wanted| errno == Some(wanted.raw_os_error()))
}

/// The same where its directory cannot be opened. Should a link lead elsewhere meanwhile, nothing of anybody's is
/// lost there: nobody else gives such names.
fn by_path(path: &Path) -> Result<bool, Error> {
    let removed = match rustix::fs::unlink(path) {
        Err(Errno::ISDIR) => rustix::fs::rmdir(path),
        removed => removed,
    };
    match removed {
        Ok(()) => Ok(true),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(Error::at("unlink", path, error)),
    }
}
