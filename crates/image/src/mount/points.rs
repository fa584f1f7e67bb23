//! Directories and files to mount on, where there are none, without making them on anybody's disk.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sandbox::mounts::{self, OldRoot, PathHandle};

use super::error::{self, MountError};

/// A directory with more entries is not rebuilt: each is a mount.
const MOST: usize = 4096;

/// Makes mount points.
#[derive(Default)]
pub(super) struct Points {
    /// Directories in memory, made here: what they lack can simply be made.
    ours: Vec<PathBuf>,
    /// Roots of before, which hold what is still to be bound.
    old_roots: usize,
    /// The whole view is an overlay of the user's, which may be written to.
    pub writable: bool,
}

/// What is to be mounted there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MountPointKind {
    Directory,
    File,
}

impl Points {
    /// Sees to it that there is a directory, or a file, at this path, and says where it is really.
    ///
    /// Where it is not there, the nearest directory above it that is there is covered by one in
    /// memory with the same entries, each a bind of what was there (Singularity calls that an
    /// underlay). What others make in that directory later is not seen.
    pub fn make(&mut self, path: &Path, kind: MountPointKind) -> Result<PathBuf, MountError> {
        match is_directory(path) {
            Ok((there, is_directory)) if is_directory == (kind == MountPointKind::Directory) => {
                return Ok(there);
            }
            Ok(_) => {
                let is = if kind == MountPointKind::Directory {
                    "it is no directory"
                } else {
                    "it is a directory"
                };
                let error = io::Error::other(is);
                return Err(MountError::File { path: path.into(), what: "mount there", error });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error::file(path, "mount there")(error)),
        }
        let above = path.ancestors().skip(1).find(|above| above.is_dir());
        let above = above.unwrap_or(Path::new("/"));
        let rest = path.strip_prefix(above).unwrap_or(path);
        let above = above.canonicalize().map_err(error::file(above, "find"))?;
        let path = above.join(rest);
        let can_make = self.is_ours(&above) || self.writable && create(&path, kind).is_ok();
        if !can_make {
            self.underlay(&above)?;
        }
        create(&path, kind).map_err(error::file(&path, "make a place to mount on"))?;
        Ok(path)
    }

    /// Makes a directory the root. What was below it is below the root then.
    pub fn become_root(&mut self, stage: &Path) -> Result<(), MountError> {
        if mounts::become_root(stage)? == OldRoot::Over {
            self.old_roots += 1;
        }
        for path in &mut self.ours {
            *path = Path::new("/").join(path.strip_prefix(stage).unwrap_or(path));
        }
        Ok(())
    }

    /// Everything is bound.
    pub fn done(self) -> Result<(), MountError> {
        for _ in 0..self.old_roots {
            mounts::take_away(Path::new("/"))?;
        }
        // What would be written there would be gone with the last rank.
        self.ours.iter().try_for_each(|ours| Ok(mounts::seal(ours)?))
    }

    fn is_ours(&self, directory: &Path) -> bool {
        let device = |path: &Path| rustix::fs::stat(path).map(|stat| stat.st_dev).ok();
        // Below one of ours may be a bind of something else.
        self.ours
            .iter()
            .any(|ours| directory.starts_with(ours) && device(directory) == device(ours))
    }

    /// Covers a directory by one in memory with the same entries.
    pub fn underlay(&mut self, directory: &Path) -> Result<(), MountError> {
        let read = error::file(directory, "list");
        let entries: Result<Vec<_>, _> =
            fs::read_dir(directory).and_then(|all| all.take(MOST + 1).collect());
        let entries = entries.map_err(read)?;
        if entries.len() > MOST {
            let error = io::Error::other(format!("it has more than {MOST} entries"));
            return Err(error::file(directory, "make a mount point in it")(error));
        }
        let before = PathHandle::at(directory).map_err(error::file(directory, "open"))?;
        let at = match directory == Path::new("/") {
            // Nothing can be mounted over the root itself.
            true => anywhere(&[])?,
            false => directory.to_owned(),
        };
        let covered = PathHandle::at(&at).map_err(error::file(&at, "open"))?;
        mounts::tmpfs(&at, "becalm")?;
        for entry in entries {
            let name = entry.file_name();
            let (from, to) = (before.path().join(&name), at.join(&name));
            let is_covered = at != *directory && at == directory.join(&name);
            let made = entry.file_type().and_then(|kind| match kind {
                kind if kind.is_symlink() => {
                    std::os::unix::fs::symlink(fs::read_link(&from)?, &to).map(|()| None)
                }
                kind if kind.is_dir() => {
                    fs::create_dir(&to).and_then(|()| PathHandle::at(&from).map(Some))
                }
                _ => File::create(&to).and_then(|_| PathHandle::at(&from).map(Some)),
            });
            match made {
                Ok(Some(_)) if is_covered => {
                    mounts::bind(&covered, &to, false)?;
                    // A copy of what is being built came with it.
                    mounts::take_away(&to)?;
                }
                Ok(Some(from)) => mounts::bind(&from, &to, false)?,
                Ok(None) => {}
                // Deleted since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error::file(directory.join(&name), "bind")(error)),
            }
        }
        if directory == Path::new("/") {
            self.become_root(&at)?;
        }
        self.ours.push(directory.to_owned());
        Ok(())
    }
}

/// Where a path leads, and whether that is a directory. The kernel says where: to ask link by link
/// takes a question for each part of the path.
fn is_directory(path: &Path) -> io::Result<(PathBuf, bool)> {
    let there = PathHandle::at(path)?;
    let is_directory = there.is_dir()?;
    match fs::read_link(there.path()) {
        Ok(real) if real.is_absolute() => Ok((real, is_directory)),
        _ => Ok((path.canonicalize()?, is_directory)),
    }
}

/// A directory of the root's in which a new root can be built. It is not in one of these, which are
/// bound whole later, with what is built there.
pub(super) fn anywhere(bound: &[&Path]) -> Result<PathBuf, MountError> {
    let usual = ["/mnt", "/media", "/srv", "/opt", "/run", "/var", "/usr", "/etc", "/tmp"];
    let is_fit = |path: &&Path| {
        fs::symlink_metadata(path).is_ok_and(|there| there.is_dir())
            && !bound.iter().any(|bound| path.starts_with(bound))
    };
    let found = usual.iter().map(Path::new).find(is_fit);
    found.map(Path::to_owned).ok_or_else(|| {
        let error = io::Error::from(io::ErrorKind::NotFound);
        MountError::System { what: "find a directory to build a root in", error }
    })
}

fn create(path: &Path, kind: MountPointKind) -> io::Result<()> {
    let exists = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    };
    match kind {
        MountPointKind::Directory => fs::create_dir_all(path),
        MountPointKind::File => {
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            File::create_new(path).map(drop).or_else(exists)
        }
    }
}
