//! Room for what is kept for a moment. A full disk, or none that can be written to, is no reason
//! not to run a command: files are kept in memory, and directories where there is room.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use access::OwnDirectory;
use rustix::fs::{FlockOperation, MemfdFlags, flock, memfd_create};
use tempfile::TempDir;

use crate::Leftovers;

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

/// How long after it is made a directory is locked, at most.
const MOMENT: Duration = Duration::from_secs(60);

/// A directory that goes with the value, and the lock that says that it is in use.
#[derive(Debug)]
pub(crate) struct ScratchDirectory {
    directory: TempDir,
    _used: Option<File>,
}

impl ScratchDirectory {
    /// One with what `fill` puts there. What a command's programs are told to look into may go before
    /// they do: nobody else must be able to make a directory of that name then. So it lies where only
    /// this user makes names; where temporary files lie (`TMPDIR`, `/tmp`), or where else this node has
    /// memory, that is a directory of this user's, which stays.
    ///
    /// # Errors
    /// That of the first place, where none will do.
    pub(crate) fn filled<T>(
        prefix: &str,
        mut fill: impl FnMut(&Path) -> io::Result<T>,
    ) -> io::Result<(ScratchDirectory, T)> {
        first_place(|place| {
            let room = own_room(&place)?;
            Leftovers::Directories.clear(&room, prefix, MOMENT);
            let directory = made_in(&room, prefix)?;
            let used = File::open(directory.path()).ok();
            let used = used.filter(|used| flock(used, FlockOperation::LockShared).is_ok());
            let made = ScratchDirectory { directory, _used: used };
            let filled = fill(made.path())?;
            Ok((made, filled))
        })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A directory of this user's alone, where temporary files lie (`TMPDIR`, `/tmp`), or where nobody else can put another
/// in its place: one that root, or this user, makes below another user's directory is that user's to exchange.
///
/// # Errors
/// That of the first place, where none will do.
pub fn temporary_directory(prefix: &str) -> io::Result<TempDir> {
    temporary_in(shared_places(), prefix)
}

fn temporary_in(places: Vec<PathBuf>, prefix: &str) -> io::Result<TempDir> {
    first_of(places, |place| {
        access::keeps_names(&place).map_err(io::Error::other)?;
        made_in(&place, prefix)
    })
}

/// Whatever the umask is, nobody else writes in it before its maker has.
fn made_in(place: &Path, prefix: &str) -> io::Result<TempDir> {
    let own = Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(prefix).permissions(own).tempdir_in(place)
}

/// Where in a directory nobody but this user makes names: itself, or a directory of that user's in it.
fn own_room(place: &Path) -> io::Result<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    fs::metadata(place)?;
    if OwnDirectory::at(place).is_ok() {
        return Ok(place.to_owned());
    }
    access::keeps_names(place).map_err(io::Error::other)?;
    let own = place.join(format!("becalm-{user}-hooks"));
    match DirBuilder::new().mode(0o711).create(&own) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        // Whoever a command becomes is to find what is in it, whatever the umask is.
        Ok(()) => fs::set_permissions(&own, Permissions::from_mode(0o711))?,
        Err(_) => {}
    }
    let about = own.symlink_metadata()?;
    let is_closed = about.is_dir() && about.mode() & 0o022 == 0;
    if is_closed && about.uid() == user {
        return Ok(own);
    }
    let why = format!("{}: is not this user's own directory", own.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// What the first place gives that gives anything; else the error of the first of them.
fn first_place<T>(make: impl FnMut(PathBuf) -> io::Result<T>) -> io::Result<T> {
    first_of(places(), make)
}

fn first_of<T>(
    places: Vec<PathBuf>,
    mut make: impl FnMut(PathBuf) -> io::Result<T>,
) -> io::Result<T> {
    let mut refused = None;
    for place in places {
        match make(place.clone()) {
            Ok(made) => return Ok(made),
            Err(error) => refused = refused.or(Some((place, error))),
        }
    }
    let (place, error) = refused.unwrap_or_else(|| ("/tmp".into(), io::ErrorKind::NotFound.into()));
    Err(io::Error::new(error.kind(), format!("{}: {error}", place.display())))
}

/// Directories of this node, the better first: of those that no other user makes names in, the one of root
/// and that of a session.
fn places() -> Vec<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|_| !is_root);
    let root = is_root.then(|| PathBuf::from("/run"));
    let own = root.into_iter().chain(session).filter(|place| place.is_absolute());
    own.chain(shared_places()).collect()
}

/// Those that all users make names in.
fn shared_places() -> Vec<PathBuf> {
    let all = [std::env::temp_dir(), "/tmp".into(), "/dev/shm".into(), "/var/tmp".into()];
    all.into_iter().filter(|place| place.is_absolute()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_lies_where_what_is_to_be_in_it_can_be_written() {
        let mut tried = Vec::new();
        let (directory, number) = ScratchDirectory::filled("becalm-test-", |directory| {
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

    #[test]
    fn nobody_else_can_make_a_directory_of_a_name_that_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let room = place.path().join(format!("becalm-{user}-hooks"));
        for (mode, own) in [(0o700, place.path()), (0o755, place.path()), (0o1777, &*room)] {
            fs::set_permissions(place.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(own_room(place.path()).unwrap(), own);
        }
        assert_eq!(fs::metadata(&room).unwrap().mode() & 0o777, 0o711);
        // Anybody may rename it away, and make another.
        fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(own_room(place.path()).is_err());
        fs::set_permissions(place.path(), Permissions::from_mode(0o1777)).unwrap();
        // Of this name, and somebody else's to write to, or elsewhere.
        fs::set_permissions(&room, Permissions::from_mode(0o777)).unwrap();
        assert!(own_room(place.path()).is_err());
        fs::remove_dir(&room).unwrap();
        std::os::unix::fs::symlink(place.path(), &room).unwrap();
        assert!(own_room(place.path()).is_err());
    }

    #[test]
    fn a_temporary_directory_is_made_where_nobody_else_can_put_another_in_its_place() {
        let scene = tempfile::tempdir().unwrap();
        let place = |name: &str, mode| {
            let place = scene.path().join(name);
            fs::create_dir(&place).unwrap();
            fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
            place
        };
        let mut places = vec![place("open", 0o777), scene.path().join("none")];
        let error = temporary_in(places.clone(), "it-").unwrap_err().to_string();
        assert!(error.contains("open: others than its owner may write to it"), "{error}");
        if rustix::process::geteuid().is_root() {
            let theirs = place("theirs", 0o755);
            std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
            places.insert(0, theirs);
        }
        places.push(place("sticky", 0o1777));
        let made = temporary_in(places.clone(), "it-").unwrap();
        assert_eq!(made.path().parent(), places.last().map(PathBuf::as_path));
        assert_eq!(fs::metadata(made.path()).unwrap().mode() & 0o777, 0o700);
    }
}
