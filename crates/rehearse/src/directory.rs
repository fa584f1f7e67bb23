//! The directories that are rehearsed: which real ones, and whether they can be.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

/// A directory that is to be seen through a mount.
#[derive(Debug)]
pub struct RehearsalRoot {
    /// Its path without symbolic links: where the mount will be.
    pub path: PathBuf,
    /// The path as it was given, where that leads there by a symbolic link.
    pub given: Option<PathBuf>,
    /// The real directory, opened before anything is mounted over it.
    pub root: OwnedFd,
    /// What its own mount forbids, as mount(2)'s flags: set-user-id, devices, execution, writing.
    pub flags: libc::c_ulong,
}

/// Why a directory cannot be rehearsed.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be reached.
    #[error("{}: {error}", .path.display())]
    Open {
        /// The path as given.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Only directories can be mounted over.
    #[error("{}: is no directory; give the directory that it is in", .path.display())]
    NoDirectory {
        /// The path as given.
        path: PathBuf,
    },
    /// The root directory.
    #[error(
        "{}: all of the machine cannot be rehearsed; give the directories that a cluster would share \
         (a home, a store, /usr)", .path.display()
    )]
    Everything {
        /// The path as given.
        path: PathBuf,
    },
    /// What the kernel serves.
    #[error("{}: is the kernel's, which no server would ever be asked for", .path.display())]
    Kernels {
        /// The path as given.
        path: PathBuf,
    },
    /// No path at all.
    #[error("no directory to rehearse is given")]
    None,
}

impl RehearsalRoot {
    /// The directories that these paths name, without those that lie below another of them.
    ///
    /// # Errors
    /// [`DirectoryError`], for the first path that cannot be rehearsed.
    pub fn all(paths: &[PathBuf]) -> Result<Vec<RehearsalRoot>, DirectoryError> {
        let mut directories =
            paths.iter().map(|path| RehearsalRoot::of(path)).collect::<Result<Vec<_>, _>>()?;
        // A directory comes before all that is below it.
        directories.sort_by(|a, b| a.path.cmp(&b.path));
        let mut outermost: Vec<RehearsalRoot> = Vec::new();
        for directory in directories {
            if !outermost.iter().any(|above| directory.path.starts_with(&above.path)) {
                outermost.push(directory);
            }
        }
        if outermost.is_empty() { Err(DirectoryError::None) } else { Ok(outermost) }
    }

    fn of(given: &Path) -> Result<RehearsalRoot, DirectoryError> {
        let failed = |error| DirectoryError::Open { path: given.to_owned(), error };
        let path = given.canonicalize().map_err(failed)?;
        if !path.is_dir() {
            return Err(DirectoryError::NoDirectory { path: given.to_owned() });
        }
        if path == Path::new("/") {
            return Err(DirectoryError::Everything { path: given.to_owned() });
        }
        let root = File::options()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(&path)
            .map_err(failed)?;
        if is_kernels(&path, &root).map_err(failed)? {
            return Err(DirectoryError::Kernels { path: given.to_owned() });
        }
        let flags = forbidden(&path).map_err(failed)?;
        // Only a link's way is worth a word: `.` and `a/../b` are what they seem.
        let given = is_by_link(given, &path).then(|| given.to_owned());
        Ok(RehearsalRoot { path, given, root: root.into(), flags })
    }
}

/// Whether a path, taken as text, is another than the one that it leads to.
fn is_by_link(given: &Path, real: &Path) -> bool {
    let mut plain = PathBuf::new();
    let Ok(absolute) = std::path::absolute(given) else { return false };
    for part in absolute.components() {
        match part {
            std::path::Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain != real
}

/// Whether a directory is of a filesystem that is an interface of the kernel's (proc(5), sysfs(5),
/// cgroups(7) and the like), or holds the devices.
fn is_kernels(path: &Path, open: &File) -> io::Result<bool> {
    const INTERFACES: [i64; 11] = [
        libc::PROC_SUPER_MAGIC,
        libc::CGROUP_SUPER_MAGIC,
        libc::CGROUP2_SUPER_MAGIC,
        libc::DEBUGFS_MAGIC,
        libc::TRACEFS_MAGIC,
        libc::SECURITYFS_MAGIC,
        libc::SELINUX_MAGIC,
        libc::BPF_FS_MAGIC,
        libc::SYSFS_MAGIC,
        0x1cd1,      // devpts
        0x6165_676c, // pstore
    ];
    let kind = rustix::fs::fstatfs(open)?.f_type as i64;
    let holds_interfaces = ["/proc", "/sys", "/dev"].iter().any(|top| path == Path::new(top));
    Ok(holds_interfaces || INTERFACES.contains(&kind))
}

/// What the mount of a directory forbids (statvfs(3)), as flags of mount(2).
fn forbidden(path: &Path) -> io::Result<libc::c_ulong> {
    let seen = rustix::fs::statvfs(path)?.f_flag;
    let pairs = [
        (StatVfsMountFlags::NOSUID, libc::MS_NOSUID),
        (StatVfsMountFlags::NODEV, libc::MS_NODEV),
        (StatVfsMountFlags::NOEXEC, libc::MS_NOEXEC),
        (StatVfsMountFlags::RDONLY, libc::MS_RDONLY),
    ];
    let set = pairs.into_iter().filter(|(flag, _)| seen.contains(*flag));
    Ok(set.fold(0, |flags, (_, flag)| flags | flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(given: &[&Path]) -> Result<Vec<PathBuf>, DirectoryError> {
        let given: Vec<PathBuf> = given.iter().map(|path| path.to_path_buf()).collect();
        RehearsalRoot::all(&given)
            .map(|directories| directories.into_iter().map(|directory| directory.path).collect())
    }

    #[test]
    fn of_nested_directories_the_outermost_is_rehearsed_once() {
        let scene = tempfile::tempdir().unwrap();
        let top = scene.path().canonicalize().unwrap();
        for name in ["a/b/c", "ab", "with space\n"] {
            std::fs::create_dir_all(top.join(name)).unwrap();
        }
        let below = |name: &str| top.join(name);
        let given = [below("a/b"), below("ab"), below("a"), below("a/."), below("with space\n")];
        let found = paths(&given.iter().map(PathBuf::as_path).collect::<Vec<_>>()).unwrap();
        assert_eq!(found, [below("a"), below("ab"), below("with space\n")]);
    }

    #[test]
    fn a_symbolic_link_is_followed_and_said() {
        let scene = tempfile::tempdir().unwrap();
        let top = scene.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("real")).unwrap();
        std::os::unix::fs::symlink("real", top.join("link")).unwrap();
        let directories = RehearsalRoot::all(&[top.join("link")]).unwrap();
        assert_eq!(directories[0].path, top.join("real"));
        assert_eq!(directories[0].given, Some(top.join("link")));
        let directories = RehearsalRoot::all(&[top.join("link/../real")]).unwrap();
        assert_eq!((&directories[0].path, &directories[0].given), (&top.join("real"), &None));
    }

    #[test]
    fn what_cannot_be_rehearsed_is_said_in_one_line() {
        let scene = tempfile::tempdir().unwrap();
        let file = scene.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (path, said) in [
            (scene.path().join("not there"), "No such file"),
            (file, "is no directory"),
            ("/".into(), "all of the machine"),
            ("/tmp/..".into(), "all of the machine"),
            ("/proc".into(), "the kernel's"),
            ("/proc/self".into(), "the kernel's"),
            ("/sys/kernel".into(), "the kernel's"),
            ("/dev".into(), "the kernel's"),
        ] {
            let error = paths(&[&path]).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{error}");
        }
        assert!(matches!(paths(&[]), Err(DirectoryError::None)));
    }
}
