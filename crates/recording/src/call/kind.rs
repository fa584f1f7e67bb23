//! What a system call asks of a filesystem.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a call asks of a filesystem, as a metadata server would file it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Opens (or creates) by path.
    Open,
    /// Attributes by path: stat, lstat, statx, getxattr.
    Stat,
    /// Permission by path.
    Access,
    /// Target of a symbolic link.
    Readlink,
    /// Entries of an open directory.
    List,
    /// Starts a program by path.
    Exec,
    /// Changes the working directory or the root by path.
    Chdir,
    /// Changes the tree: unlink, rename, mkdir, link, chmod, truncate, utime…
    Change,
    /// Attributes of the filesystem itself.
    Statfs,
    /// Attributes of an open descriptor. Never a lookup: the client holds them.
    Fstat,
    /// Data out of a descriptor.
    Read,
    /// Data into a descriptor.
    Write,
    /// Gives a descriptor back.
    Close,
    /// Maps a file, or memory.
    Map,
    /// Starts a process or a thread.
    Fork,
    /// Waits for one.
    Wait,
    /// Anything else.
    Other,
}

impl Kind {
    pub(super) fn of(name: &str) -> Kind {
        match name {
            "open" | "openat" | "openat2" | "creat" | "open_tree" | "uselib"
            | "name_to_handle_at" => Kind::Open,
            "stat" | "lstat" | "newfstatat" | "statx" | "stat64" | "lstat64" | "fstatat64"
            | "oldstat" | "oldlstat" | "getxattr" | "lgetxattr" | "listxattr" | "llistxattr"
            | "getxattrat" | "listxattrat" | "file_getattr" => Kind::Stat,
            "access" | "faccessat" | "faccessat2" => Kind::Access,
            "readlink" | "readlinkat" => Kind::Readlink,
            "getdents" | "getdents64" | "readdir" => Kind::List,
            "execve" | "execveat" => Kind::Exec,
            "chdir" | "chroot" => Kind::Chdir,
            "statfs" | "statfs64" => Kind::Statfs,
            "fstat" | "fstat64" | "oldfstat" | "fstatfs" | "fstatfs64" | "fgetxattr"
            | "flistxattr" => Kind::Fstat,
            "read" | "pread64" | "readv" | "preadv" | "preadv2" => Kind::Read,
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => Kind::Write,
            "close" => Kind::Close,
            "mmap" | "mmap2" => Kind::Map,
            "fork" | "vfork" | "clone" | "clone3" => Kind::Fork,
            "wait4" | "waitid" | "waitpid" => Kind::Wait,
            "unlink" | "unlinkat" | "rmdir" | "mkdir" | "mkdirat" | "mknod" | "mknodat"
            | "rename" | "renameat" | "renameat2" | "link" | "linkat" | "symlink" | "symlinkat"
            | "chmod" | "fchmodat" | "fchmodat2" | "chown" | "lchown" | "fchownat" | "chown32"
            | "lchown32" | "truncate" | "truncate64" | "utime" | "utimes" | "utimensat"
            | "utimensat_time64" | "futimesat" | "setxattr" | "lsetxattr" | "removexattr"
            | "lremovexattr" | "setxattrat" | "removexattrat" | "file_setattr" => Kind::Change,
            _ => Kind::Other,
        }
    }

    /// Whether a filesystem has to look a path up, or list a directory, to answer: what a
    /// metadata server serves. Data, and what a descriptor already holds, are not.
    pub fn is_metadata(self) -> bool {
        matches!(
            self,
            Kind::Open
                | Kind::Stat
                | Kind::Access
                | Kind::Readlink
                | Kind::List
                | Kind::Exec
                | Kind::Chdir
                | Kind::Change
                | Kind::Statfs
        )
    }
}
