//! What a process with mounts of its own ([`crate::namespace`]) mounts there.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags};

use crate::namespace::{NamespaceError, NamespaceKind};

/// A file or directory as it is now, whatever is mounted over it later.
#[derive(Debug)]
pub struct PathHandle(OwnedFd);

impl PathHandle {
    /// That at a path; symbolic links are followed.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn at(path: &Path) -> io::Result<PathHandle> {
        let file = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
        Ok(PathHandle(file.into()))
    }

    /// A path that leads to it, for this process. It has no character that would need quoting in
    /// mount options.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Whether it is a directory.
    ///
    /// # Errors
    /// Those of stat.
    pub fn is_dir(&self) -> io::Result<bool> {
        let about = rustix::fs::fstat(&self.0)?;
        Ok(rustix::fs::FileType::from_raw_mode(about.st_mode).is_dir())
    }
}

impl AsFd for PathHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn failed(what: &'static str, at: &Path, error: impl Into<io::Error>) -> NamespaceError {
    NamespaceError::Mount { what, at: at.to_owned(), error: error.into() }
}

/// Shows a file or directory, with what is mounted below it, at another path as well.
///
/// # Errors
/// [`NamespaceError::Mount`]; both must be directories, or neither.
pub fn bind(from: &PathHandle, at: &Path, read_only: bool) -> Result<(), NamespaceError> {
    rustix::mount::mount_bind_recursive(from.path(), at)
        .map_err(|error| failed("a bind", at, error))?;
    if read_only {
        make_read_only(at).map_err(|error| failed("a read-only bind", at, error))?;
    }
    Ok(())
}

/// Shows a file or directory at another path as well, and not what is mounted over or below it.
///
/// # Errors
/// [`NamespaceError::Mount`].
pub fn bind_alone(from: &PathHandle, at: &Path) -> Result<(), NamespaceError> {
    rustix::mount::mount_bind(from.path(), at).map_err(|error| failed("a bind", at, error))
}

/// Makes a mount, and those below it, read-only, for this mount namespace.
fn make_read_only(at: &Path) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let path = CString::new(at.as_os_str().as_bytes())?;
    // SAFETY: the path is NUL-terminated, and the structure is as long as said.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of_val(&attributes),
        )
    };
    match io::Error::last_os_error() {
        _ if done == 0 => Ok(()),
        // Before Linux 5.12: not those below it.
        error if error.raw_os_error() == Some(libc::ENOSYS) => topmost_read_only(at),
        error => Err(error),
    }
}

/// Makes one mount read-only, and not those below it.
///
/// # Errors
/// [`NamespaceError::Mount`].
pub fn seal(at: &Path) -> Result<(), NamespaceError> {
    topmost_read_only(at).map_err(|error| failed("a read-only directory", at, error))
}

/// Takes away what was mounted last at a path.
///
/// # Errors
/// [`NamespaceError::Mount`].
pub fn take_away(at: &Path) -> Result<(), NamespaceError> {
    rustix::mount::unmount(at, UnmountFlags::DETACH).map_err(|error| failed("nothing", at, error))
}

/// What a mount forbids already must be said again (mount_namespaces(7), "locked" flags), and
/// statvfs's numbers are mount's.
fn topmost_read_only(at: &Path) -> io::Result<()> {
    let flags = rustix::fs::statvfs(at)?.f_flag.bits() as u32;
    let kept = MountFlags::from_bits_retain(flags)
        & (MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC);
    let flags = kept | MountFlags::BIND | MountFlags::RDONLY;
    Ok(rustix::mount::mount_remount(at, flags, "")?)
}

/// An empty directory in memory, of the caller's, over a directory. `source` is the first word of
/// what mount(8) says of it.
///
/// # Errors
/// [`NamespaceError::Mount`].
pub fn tmpfs(at: &Path, source: &str) -> Result<(), NamespaceError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(source, at, "tmpfs", flags, c"mode=755")
        .map_err(|error| failed("a tmpfs", at, error))
}

/// A filesystem of a block device.
///
/// # Errors
/// [`NamespaceError::Mount`].
pub fn device(
    device: &Path,
    kind: &'static str,
    at: &Path,
    read_only: bool,
) -> Result<(), NamespaceError> {
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if read_only {
        flags |= MountFlags::RDONLY;
    }
    rustix::mount::mount(device, at, kind, flags, None).map_err(|error| failed(kind, at, error))
}

/// Directories over one another as one, at a path (overlayfs(5)). The first of `lower` is on top.
/// `upper` is where changes go, and the work directory that goes with it, on the same filesystem;
/// without it nothing can be changed.
///
/// # Errors
/// [`NamespaceError::Mount`].
pub fn overlay(
    lower: &[&PathHandle],
    upper: Option<(&PathHandle, &PathHandle)>,
    at: &Path,
    means: NamespaceKind,
) -> Result<(), NamespaceError> {
    let path = |place: &PathHandle| place.path().display().to_string();
    let lower: Vec<String> = lower.iter().map(|place| path(place)).collect();
    let mut options = format!("lowerdir={}", lower.join(":"));
    if let Some((upper, work)) = upper {
        options += &format!(",upperdir={},workdir={}", path(upper), path(work));
    }
    // What is deleted is noted in attributes, of which only these are an ordinary user's
    // (Linux 5.11).
    if means == NamespaceKind::UserNamespace {
        options += ",userxattr";
    }
    let options = CString::new(options).map_err(|error| failed("an overlay", at, error))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("becalm", at, "overlay", flags, options.as_c_str())
        .map_err(|error| failed("an overlay", at, error))
}

/// Makes a directory, on which something is mounted, the root of all that the calling process sees.
/// Its working directory is the new root then. What was opened in the old one ([`PathHandle`]) can still
/// be bound, until [`take_away`] takes it from `/`.
///
/// # Errors
/// [`NamespaceError::Mount`].
pub fn become_root(at: &Path) -> Result<OldRoot, NamespaceError> {
    let wrong = |error: rustix::io::Errno| failed("a new root", at, error);
    rustix::process::chdir(at).map_err(wrong)?;
    // Over the new one, out of sight (pivot_root(2), `pivot_root(".", ".")`).
    let old = match rustix::process::pivot_root(".", ".") {
        Ok(()) => OldRoot::Over,
        // The root is the kernel's first, in memory, which cannot be moved away: nodes without
        // disks have that (Documentation/filesystems/ramfs-rootfs-initramfs.rst).
        Err(_) => {
            rustix::mount::mount_move(".", "/").map_err(wrong)?;
            rustix::process::chroot(".").map_err(wrong)?;
            OldRoot::Under
        }
    };
    rustix::process::chdir("/").map_err(wrong)?;
    Ok(old)
}

/// Where the root of before is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldRoot {
    /// Mounted over the new one, to be forgotten.
    Over,
    /// Below it, for good.
    Under,
}
