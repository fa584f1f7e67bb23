//! A directory held open. Somebody else may write in it, too, and may exchange any name in it for
//! another between two system calls: what is done here is done in this directory, to what was
//! opened, and never through a link.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{
    Access, AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, ResolveFlags, Statx, StatxFlags,
};
use rustix::io::Errno;

use crate::Error;
use crate::directory_times::AccessAndChange;
use crate::stamp::{FileIdentity, FileStamp};
use crate::work::directory_of;

/// As many links on a way as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// What is done in it is named by paths that lie in it.
#[derive(Debug)]
pub(crate) struct HeldDirectory {
    open: OwnedFd,
    /// Which one it is, once it was asked.
    identity: OnceLock<FileIdentity>,
}

impl HeldDirectory {
    /// The directory that a path is in.
    ///
    /// # Errors
    /// Those of [`HeldDirectory::open`].
    pub(crate) fn of(path: &Path) -> Result<HeldDirectory, Error> {
        HeldDirectory::open(directory_of(path))
    }

    /// The directory at an absolute path. A symbolic link on the way is followed where only root or
    /// this user can have put it there: another's could lead anywhere.
    ///
    /// # Errors
    /// If another's link is on the way, or those of openat(2).
    pub(crate) fn open(path: &Path) -> Result<HeldDirectory, Error> {
        let mut way = path.to_owned();
        for _ in 0..MOST_LINKS {
            match without_links(&way) {
                Ok(open) => return Ok(HeldDirectory::opened(open)),
                // Of a link, as it is asked for a directory.
                Err(failure @ (Errno::LOOP | Errno::NOTDIR)) => {
                    way = past_a_link(&way, failure)?;
                }
                Err(error) => return Err(Error::at("open", path, error)),
            }
        }
        Err(Error::at("open", path, Errno::LOOP))
    }

    /// The directory at an absolute path, if it is there and no symbolic link on the way: one call tells
    /// what readlink(2) would tell of each of its names.
    pub(crate) fn without_links(path: &Path) -> Option<HeldDirectory> {
        without_links(path).ok().map(HeldDirectory::opened)
    }

    fn opened(open: OwnedFd) -> HeldDirectory {
        HeldDirectory { open, identity: OnceLock::new() }
    }

    /// What statx(2) says of it.
    pub(crate) fn statx(&self, what: StatxFlags) -> Result<Statx, Errno> {
        let found = rustix::fs::statx(&self.open, "", AtFlags::EMPTY_PATH, what)?;
        let _ = self.identity.set(FileStamp::of_statx(&found).identity());
        Ok(found)
    }

    /// The directory itself, opened anew to list it or to sync it: wherever it has been moved.
    pub(crate) fn reopen(&self) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.open, ".", flags, Mode::empty()).map(File::from)
    }

    /// The device that it is on.
    pub(crate) fn device(&self) -> Result<u64, Errno> {
        rustix::fs::fstat(&self.open).map(|found| FileStamp::of_stat(&found).identity().0)
    }

    /// Whether this user may do this in it (access(2)).
    pub(crate) fn access(&self, rights: Access) -> Result<(), Errno> {
        rustix::fs::accessat(&self.open, ".", rights, AtFlags::empty())
    }

    /// When it was read and changed last; none where that cannot be told.
    pub(crate) fn times(&self) -> Option<AccessAndChange> {
        rustix::fs::fstat(&self.open).ok().map(|found| AccessAndChange::of(&found))
    }

    /// Gives it other times, where this user may.
    pub(crate) fn give_times(&self, times: AccessAndChange) {
        let _ = rustix::fs::utimensat(&self.open, ".", &times.timestamps(), AtFlags::empty());
    }

    /// What lstat(2) says of what is here, to compare it with what was seen.
    pub(crate) fn stamp(&self, path: &Path) -> Result<FileStamp, Error> {
        let found = rustix::fs::statat(&self.open, name(path), AtFlags::SYMLINK_NOFOLLOW);
        found
            .map(|found| FileStamp::of_stat(&found))
            .map_err(|error| Error::at("lstat", path, error))
    }

    /// What lstat(2) says of what is here, whatever it is.
    pub(crate) fn look(&self, path: &Path) -> Result<fs::Metadata, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(&self.open, name(path), flags, Mode::empty())?;
        let found = File::from(found).metadata();
        found.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// Where a link here leads.
    pub(crate) fn target(&self, path: &Path) -> Result<PathBuf, Errno> {
        let target = rustix::fs::readlinkat(&self.open, name(path), Vec::new())?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
    }

    /// Opens a file to read it. Its access time stays where the system allows that; a FIFO does
    /// not block it.
    pub(crate) fn read(&self, path: &Path) -> Result<File, Error> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::openat(&self.open, name(path), flags, Mode::empty());
        let open = open(flags | OFlags::NOATIME).or_else(|_| open(flags));
        open.map(File::from).map_err(|error| Error::at("open", path, error))
    }

    /// Creates a file that nobody else can open yet.
    pub(crate) fn create(&self, path: &Path) -> Result<File, Error> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        rustix::fs::openat(&self.open, name(path), flags | OFlags::CLOEXEC, Mode::from(0o600))
            .map(File::from)
            .map_err(|error| Error::at("create", path, error))
    }

    /// Makes a directory that nobody else can open yet, and opens it.
    ///
    /// # Errors
    /// If it was exchanged before it was open: a link is not followed, and what is in another
    /// directory must not be made readable with it.
    pub(crate) fn make_directory(&self, path: &Path) -> Result<File, Error> {
        rustix::fs::mkdirat(&self.open, name(path), Mode::from(0o700))
            .map_err(|error| Error::at("mkdir", path, error))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = match rustix::fs::openat(&self.open, name(path), flags, Mode::empty()) {
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(exchanged(path)),
            made => made.map_err(|error| Error::at("open", path, error))?,
        };
        let failed = |error| Error::at("list", path, error);
        for entry in Dir::read_from(&made).map_err(failed)? {
            if ![&b"."[..], b".."].contains(&entry.map_err(failed)?.file_name().to_bytes()) {
                return Err(exchanged(path));
            }
        }
        Ok(made.into())
    }

    /// Makes a symbolic link, and opens it (O_PATH).
    pub(crate) fn make_link(&self, path: &Path, target: &Path) -> Result<File, Error> {
        rustix::fs::symlinkat(target, &self.open, name(path))
            .map_err(|error| Error::at("symlink", path, error))?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = rustix::fs::openat(&self.open, name(path), flags, Mode::empty());
        let link = File::from(link.map_err(|error| Error::at("open", path, error))?);
        let found = link.metadata().map_err(|error| Error::at("fstat", path, error))?;
        if found.is_symlink() { Ok(link) } else { Err(exchanged(path)) }
    }

    /// Gives what is at a path here one more name (a hard link).
    pub(crate) fn link(&self, path: &Path, to: &HeldDirectory, new: &Path) -> Result<(), Error> {
        rustix::fs::linkat(&self.open, name(path), &to.open, name(new), AtFlags::empty())
            .map_err(|error| Error::at("link", new, error))
    }

    /// Renames over whatever file is at the new path.
    pub(crate) fn rename(&self, path: &Path, to: &HeldDirectory, new: &Path) -> Result<(), Error> {
        rustix::fs::renameat(&self.open, name(path), &to.open, name(new))
            .map_err(|error| Error::at("rename", new, error))
    }

    /// Renames to a path that is free, and never over a file.
    pub(crate) fn move_to(
        &self,
        path: &Path,
        is_directory: bool,
        to: &HeldDirectory,
        new: &Path,
    ) -> Result<(), Error> {
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&self.open, name(path), &to.open, name(new), flags) {
            // NFS and old kernels. A directory goes over an empty directory at most, and a hard
            // link is never made over anything.
            Err(Errno::INVAL | Errno::NOSYS) if is_directory => self.rename(path, to, new),
            Err(Errno::INVAL | Errno::NOSYS) => {
                self.link(path, to, new)?;
                self.unlink(path).map_err(|error| Error::at("unlink", path, error))
            }
            moved => moved.map_err(|error| Error::at("rename", new, error)),
        }
    }

    /// Removes a file or link.
    pub(crate) fn unlink(&self, path: &Path) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.open, name(path), AtFlags::empty())
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, path: &Path) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.open, name(path), AtFlags::REMOVEDIR)
    }
}

/// Something else is where becalm had made something.
pub(crate) fn exchanged(path: &Path) -> Error {
    Error::refused(path, "was exchanged by somebody else while becalm was at work")
}

fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// Opens a directory; fails where a link is on the way.
fn without_links(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Before Linux 5.6, or a filter that does not know it.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(path),
        opened => opened,
    }
}

/// The same, name by name.
fn step_by_step(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::open("/", flags, Mode::empty())?;
    for part in path.components().filter(|part| *part != Component::RootDir) {
        at = rustix::fs::openat(&at, part.as_os_str(), flags, Mode::empty())?;
    }
    Ok(at)
}

/// The way with its first link followed. Where there is none, it has failed for another reason.
fn past_a_link(way: &Path, failure: Errno) -> Result<PathBuf, Error> {
    use std::os::unix::fs::MetadataExt;
    let mut steps: Vec<_> = way.ancestors().collect();
    steps.reverse();
    for step in steps {
        let found = fs::symlink_metadata(step).map_err(|error| Error::at("lstat", step, error))?;
        if !found.is_symlink() {
            continue;
        }
        let above = directory_of(step);
        let above = fs::metadata(above).map_err(|error| Error::at("stat", above, error))?;
        let trusted = [0, rustix::process::geteuid().as_raw()];
        if let Some(other) = [found.uid(), above.uid()].iter().find(|uid| !trusted.contains(uid)) {
            let reason = format!("is a symbolic link that user {other} may have put there");
            return Err(Error::refused(step, format!("{reason}: it is not followed")));
        }
        // Where all may write, and no sticky bit leaves a name to its owner.
        if above.mode() & 0o1002 == 0o002 {
            let reason = "is a symbolic link that anybody may have put there: it is not followed";
            return Err(Error::refused(step, reason));
        }
        let target = fs::read_link(step).map_err(|error| Error::at("readlink", step, error))?;
        let rest = way.strip_prefix(step).unwrap_or(Path::new(""));
        return Ok(directory_of(step).join(target).join(rest));
    }
    Err(Error::at("open", way, failure))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    #[test]
    fn a_link_on_the_way_is_followed_where_root_or_this_user_made_it() {
        let scene = tempfile::tempdir().unwrap();
        let at = |name: &str| scene.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(at("real/sub")).unwrap();
        symlink("real", at("relative")).unwrap();
        symlink(at("relative"), at("absolute")).unwrap();
        symlink("real/../absolute/sub", at("dots")).unwrap();
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        for way in ["real/sub", "relative/sub", "absolute/sub", "dots"] {
            let held = HeldDirectory::open(&at(way)).unwrap();
            assert_eq!(File::from(held.open).metadata().unwrap().ino(), inode(&at("real/sub")));
        }
        symlink("loop", at("loop")).unwrap();
        fs::write(at("file"), "").unwrap();
        for way in ["loop/sub", "file/sub", "none/sub"] {
            assert!(HeldDirectory::open(&at(way)).is_err(), "{way}");
        }
        if rustix::process::geteuid().is_root() {
            lchown(at("relative"), Some(65534), None).unwrap();
            let Err(error) = HeldDirectory::open(&at("absolute/sub")) else { panic!("followed") };
            assert!(error.to_string().contains("relative: is a symbolic link that user 65534 may"));
        }
    }

    #[test]
    fn without_openat2_a_way_is_gone_name_by_name_and_ends_at_a_link_as_well() {
        let scene = tempfile::tempdir().unwrap();
        let real = scene.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("real/sub")).unwrap();
        symlink("real", real.join("link")).unwrap();
        let opened = File::from(step_by_step(&real.join("real/sub")).unwrap());
        let inode = fs::metadata(real.join("real/sub")).unwrap().ino();
        assert_eq!(opened.metadata().unwrap().ino(), inode);
        assert!(matches!(step_by_step(&real.join("link/sub")), Err(Errno::NOTDIR | Errno::LOOP)));
    }
}
