//! Writes a file whole or not at all: also where becalm is asked to end meanwhile, by Ctrl-C, `kill`, or a
//! terminal that closes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use access::keep_access;
use launch::Unfinished;

/// Why a file was not written. The old one is as it was.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The name is that of a directory.
    #[error("{}: is a directory; give a file's name", shown(.0))]
    Directory(PathBuf),
    /// It would replace what it is made from.
    #[error("{}: is the recording itself; choose another name", shown(.0))]
    Source(PathBuf),
    /// Its source says what failed.
    #[error("{}", shown(.path))]
    Write {
        /// The file.
        path: PathBuf,
        /// Of opening, writing or renaming.
        source: io::Error,
    },
}

fn shown(path: &Path) -> String {
    term::plain(&path.to_string_lossy())
}

/// Writes `target`: what `write` gives goes into a new file beside it, which takes its name once
/// all is on the disk. A device or a pipe is written to as it is.
///
/// # Errors
/// [`SaveError`].
pub fn whole(
    target: &Path,
    source: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), SaveError> {
    let done = match fs::metadata(target) {
        Ok(there) if there.is_dir() => return Err(SaveError::Directory(target.to_owned())),
        Ok(there) if is_same(&there, source) => return Err(SaveError::Source(target.to_owned())),
        Ok(there) if !there.is_file() => {
            File::options().write(true).open(target).and_then(|out| write_all(out, write))
        }
        _ => replace(target, write),
    };
    done.map_err(|source| SaveError::Write { path: target.to_owned(), source })
}

/// Writes a file of a name that is free; whether it still was when all had been written.
///
/// # Errors
/// [`SaveError`]. There is no file of that name then.
pub fn fresh(
    target: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<bool, SaveError> {
    let taken = |file: NamedTempFile| match file.persist_noclobber(target) {
        Ok(_) => Ok(true),
        Err(taken) if taken.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    };
    beside(target, write, taken)
        .map_err(|source| SaveError::Write { path: target.to_owned(), source })
}

fn replace(target: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let target = followed(target);
    beside(&target, write, |file| file.persist(&target).map(drop).map_err(|error| error.error))
}

/// What a name leads to, whether it is there or not: a symbolic link stays, as with a shell's `>`,
/// and what it points to is written anew.
pub fn followed(target: &Path) -> PathBuf {
    // As many as Linux follows (path_resolution(7)).
    const MOST_LINKS: usize = 40;
    let mut target = target.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&target) else { break };
        target = directory_of(&target).join(next);
    }
    target
}

/// All of it, on the disk, in a file of a name of the moment; then `name` gives it its own.
fn beside<T>(
    target: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    name: impl FnOnce(NamedTempFile) -> io::Result<T>,
) -> io::Result<T> {
    let directory = directory_of(target);
    // What is wrong with it is said without the file's name of the moment.
    fs::metadata(&directory)?;
    // Whose place it takes may not be for all to read: so it is nobody else's until it has that one's access.
    let is_there = fs::metadata(target).is_ok_and(|there| there.is_file());
    let mode = if is_there { 0o600 } else { 0o666 };
    let make = || {
        tempfile::Builder::new()
            .prefix(".becalm-")
            .permissions(fs::Permissions::from_mode(mode))
            .tempfile_in(directory)
    };
    let (file, unfinished) = Unfinished::begin(make, |path| fs::remove_file(path))?;
    write_all(file.as_file(), write)?;
    keep_access(file.as_file(), target)?;
    file.as_file().sync_all()?;
    unfinished.finish(|| name(file))
}

fn write_all(
    out: impl Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(256 << 10, out);
    write(&mut out)?;
    out.flush()
}

fn directory_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(directory) if directory != Path::new("") => directory.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn is_same(there: &fs::Metadata, source: &Path) -> bool {
    fs::metadata(source)
        .is_ok_and(|source| (source.dev(), source.ino()) == (there.dev(), there.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_the_place_of_a_closed_file_is_closed_while_it_is_written() {
        let scene = tempfile::tempdir().unwrap();
        let target = scene.path().join("answer");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        let beside = || {
            let there = fs::read_dir(scene.path()).unwrap().map(|entry| entry.unwrap().path());
            let mut beside = there.filter(|path| *path != target);
            beside.next().unwrap()
        };
        let save = || {
            let mut meanwhile = 0;
            whole(&target, Path::new(""), |out| {
                meanwhile = mode(&beside());
                out.write_all(b"content")
            })
            .unwrap();
            (meanwhile, mode(&target))
        };
        let (open, free) = save();
        assert_eq!(open, free, "as the umask has it");
        for there in [0o600, 0o640, 0o644] {
            fs::set_permissions(&target, fs::Permissions::from_mode(there)).unwrap();
            assert_eq!(save(), (0o600, there));
        }
    }
}
