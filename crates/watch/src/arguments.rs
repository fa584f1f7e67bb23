//! What each system call's arguments mean.

use recording::Kind;

/// What the tracer has to do at a call, beside recording it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Special {
    #[default]
    None,
    Exec,
    Fork,
    Vfork,
    /// Flags in the first argument.
    Clone,
    /// Flags in the structure that the first argument points to.
    Clone3,
    /// Returns a new descriptor for the path.
    Open,
    /// The same, with its flags in a structure.
    Openat2,
    Close,
    CloseRange,
    Dup,
    /// dup2 and dup3: the second argument is the new descriptor.
    DupTo,
    Fcntl,
    Map,
    Chdir,
    Fchdir,
    Root,
    /// Changes what is mounted in the caller's namespace.
    Mount,
    Rename,
    Wait,
    Waitid,
    Ptrace,
    OwnFilter,
    IoUring,
    /// Reads or sets the CPUs that a thread may run on.
    Affinity,
    /// What the C library asks first once everything is loaded.
    StackLimit,
    Unshare,
    /// Its path may tell the observer something.
    Told,
    /// Opens a file, and matters only if that is a locale's.
    Locale,
}

/// The meaning of one call's arguments, by their places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallShape {
    /// Whether the call becomes an event.
    pub recorded: bool,
    /// Whether a tap reports it, so that where it stops all the same it is not taken in twice.
    pub tapped: bool,
    /// What it asks of a filesystem.
    pub kind: Kind,
    /// The directory that `path` is relative to.
    pub at: Option<u8>,
    pub path: Option<u8>,
    pub other_at: Option<u8>,
    pub other_path: Option<u8>,
    /// What is kept as the event's flags.
    pub flags: Option<u8>,
    /// Where `AT_EMPTY_PATH` may be.
    pub at_flags: Option<u8>,
    /// The descriptor that the call is about.
    pub fd: Option<u8>,
    pub special: Special,
}

impl CallShape {
    const fn path(path: u8) -> CallShape {
        CallShape { path: Some(path), ..CallShape::NONE }
    }

    const fn at(at: u8, path: u8) -> CallShape {
        CallShape { at: Some(at), path: Some(path), ..CallShape::NONE }
    }

    const fn fd(fd: u8) -> CallShape {
        CallShape { fd: Some(fd), ..CallShape::NONE }
    }

    const fn flags(self, flags: u8) -> CallShape {
        CallShape { flags: Some(flags), ..self }
    }

    const fn at_flags(self, flags: u8) -> CallShape {
        CallShape { at_flags: Some(flags), ..self }
    }

    const fn to(self, path: u8) -> CallShape {
        CallShape { other_path: Some(path), ..self }
    }

    const fn to_at(self, at: u8, path: u8) -> CallShape {
        CallShape { other_at: Some(at), other_path: Some(path), ..self }
    }

    const fn special(self, special: Special) -> CallShape {
        CallShape { special, ..self }
    }

    pub const NONE: CallShape = CallShape {
        recorded: false,
        tapped: false,
        kind: Kind::Other,
        at: None,
        path: None,
        other_at: None,
        other_path: None,
        flags: None,
        at_flags: None,
        fd: None,
        special: Special::None,
    };
}

/// The arguments of a call, from its section-2 man page.
pub(crate) fn arguments_of(name: &str) -> CallShape {
    match name {
        "open" => CallShape::path(0).flags(1).special(Special::Open),
        "creat" => CallShape::path(0).special(Special::Open),
        "openat" => CallShape::at(0, 1).flags(2).special(Special::Open),
        "openat2" => CallShape::at(0, 1).special(Special::Openat2),
        "open_tree" | "open_tree_attr" => {
            CallShape::at(0, 1).flags(2).at_flags(2).special(Special::Open)
        }
        "name_to_handle_at" => CallShape::at(0, 1).flags(4).at_flags(4),
        "fspick" | "inotify_add_watch" => CallShape::at(0, 1).flags(2),
        "stat" | "lstat" | "stat64" | "lstat64" | "oldstat" | "oldlstat" | "statfs"
        | "statfs64" | "readlink" | "getxattr" | "lgetxattr" | "listxattr" | "llistxattr"
        | "setxattr" | "lsetxattr" | "removexattr" | "lremovexattr" | "truncate" | "truncate64"
        | "unlink" | "rmdir" | "mkdir" | "mknod" | "chmod" | "chown" | "lchown" | "chown32"
        | "lchown32" | "utime" | "utimes" | "acct" | "swapon" | "swapoff" | "uselib" => {
            CallShape::path(0)
        }
        "umount" | "umount2" => CallShape::path(0).special(Special::Mount),
        "access" => CallShape::path(0).flags(1),
        "chdir" => CallShape::path(0).special(Special::Chdir),
        "chroot" => CallShape::path(0).special(Special::Root),
        "pivot_root" => CallShape::path(0).to(1).special(Special::Root),
        "newfstatat" | "fstatat64" => CallShape::at(0, 1).flags(3).at_flags(3),
        "statx" => CallShape::at(0, 1).flags(2).at_flags(2),
        "file_getattr" | "file_setattr" => CallShape::at(0, 1).flags(4).at_flags(4),
        "getxattrat" | "setxattrat" | "listxattrat" | "removexattrat" | "mount_setattr" => {
            CallShape::at(0, 1).flags(2).at_flags(2)
        }
        "faccessat" => CallShape::at(0, 1).flags(2),
        "faccessat2" => CallShape::at(0, 1).flags(2).at_flags(3),
        // An empty path with a descriptor means the descriptor, without a flag (readlink(2)).
        "readlinkat" | "mkdirat" | "mknodat" | "futimesat" => CallShape::at(0, 1),
        "fchmodat" => CallShape::at(0, 1),
        "fchmodat2" | "utimensat" | "utimensat_time64" => CallShape::at(0, 1).flags(3).at_flags(3),
        "fchownat" => CallShape::at(0, 1).flags(4).at_flags(4),
        "unlinkat" => CallShape::at(0, 1).flags(2),
        "rename" => CallShape::path(0).to(1).special(Special::Rename),
        "renameat" | "renameat2" => CallShape::at(0, 1).to_at(2, 3).special(Special::Rename),
        "link" => CallShape::path(0).to(1),
        "linkat" => CallShape::at(0, 1).to_at(2, 3).flags(4).at_flags(4),
        // The first path of a symbolic link is text, not a lookup: the link is what is made.
        "symlink" => CallShape::path(1),
        "symlinkat" => CallShape::at(1, 2),
        "mount" => CallShape::path(1).special(Special::Mount),
        "move_mount" => CallShape::at(0, 1).to_at(2, 3).flags(4).special(Special::Mount),
        "fanotify_mark" => CallShape::at(3, 4),
        "quotactl" => CallShape::path(1),
        "execve" => CallShape::path(0).special(Special::Exec),
        "execveat" => CallShape::at(0, 1).flags(4).at_flags(4).special(Special::Exec),
        "fork" => CallShape::NONE.special(Special::Fork),
        "vfork" => CallShape::NONE.special(Special::Vfork),
        "clone" => CallShape::NONE.flags(0).special(Special::Clone),
        "clone3" => CallShape::NONE.special(Special::Clone3),
        "wait4" | "waitpid" => CallShape::NONE.special(Special::Wait),
        "waitid" => CallShape::NONE.special(Special::Waitid),
        "close" => CallShape::fd(0).special(Special::Close),
        "close_range" => CallShape::NONE.special(Special::CloseRange),
        "dup" => CallShape::fd(0).special(Special::Dup),
        "dup2" | "dup3" => CallShape::fd(0).special(Special::DupTo),
        "fcntl" | "fcntl64" => CallShape::fd(0).flags(1).special(Special::Fcntl),
        "mmap" => CallShape::fd(4).flags(2).special(Special::Map),
        "mmap2" => CallShape::fd(4).flags(2).special(Special::Map),
        "fchdir" => CallShape::fd(0).special(Special::Fchdir),
        "ioctl" => CallShape::fd(0).flags(1),
        "read" | "write" | "readv" | "writev" | "pread64" | "pwrite64" | "preadv" | "pwritev"
        | "preadv2" | "pwritev2" | "lseek" | "_llseek" | "fstat" | "fstat64" | "oldfstat"
        | "fstatfs" | "fstatfs64" | "getdents" | "getdents64" | "readdir" | "fchmod" | "fchown"
        | "fchown32" | "ftruncate" | "ftruncate64" | "fsync" | "fdatasync" | "fallocate"
        | "fadvise64" | "fadvise64_64" | "flock" | "fgetxattr" | "flistxattr" | "fsetxattr"
        | "fremovexattr" | "readahead" | "sync_file_range" | "syncfs" | "epoll_wait"
        | "epoll_ctl" | "epoll_pwait" | "epoll_pwait2" | "sendfile" | "sendfile64" | "splice"
        | "tee" | "copy_file_range" | "vmsplice" => CallShape::fd(0),
        "setns" => CallShape::fd(0).special(Special::Root),
        "unshare" => CallShape::NONE.flags(0).special(Special::Unshare),
        "ptrace" => CallShape::NONE.special(Special::Ptrace),
        "seccomp" | "prctl" => CallShape::NONE.special(Special::OwnFilter),
        "io_uring_setup" => CallShape::NONE.special(Special::IoUring),
        "sched_getaffinity" | "sched_setaffinity" => CallShape::NONE.special(Special::Affinity),
        "prlimit64" => CallShape::NONE.special(Special::StackLimit),
        _ => CallShape::NONE,
    }
}

#[cfg(test)]
mod tests {
    use recording::{Abi, Call};

    use super::*;

    #[test]
    fn every_call_of_the_file_class_has_a_path() {
        let without = ["getcwd", "fsconfig", "execveat"];
        for call in [Abi::X86_64, Abi::I386, Abi::Aarch64, Abi::Arm].into_iter().flat_map(Call::all)
        {
            let name = call.known_name().unwrap();
            if call.class().file && !without.contains(&name) {
                assert!(arguments_of(name).path.is_some(), "{name}");
            }
        }
    }
}
