//! strace's classes `%file`, `%desc` and `%process` (strace(1), "-e trace=syscall_set").
//!
//! The lists say what strace 6.1 prints for each class, and what newer strace does for newer
//! calls; `tests/` runs both on a program that makes every call and compares.

/// The classes a call is in; a call can be in several (`openat` is in file and desc).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Takes a path: `strace -e trace=%file`.
    pub file: bool,
    /// Takes or gives a descriptor: `strace -e trace=%desc`.
    pub desc: bool,
    /// Starts, ends, waits for or signals processes: `strace -e trace=%process`.
    pub process: bool,
}

impl Class {
    /// The classes of the call of this name.
    pub(super) fn of(name: &str) -> Class {
        Class {
            file: FILE.contains(&name),
            desc: DESC.contains(&name),
            process: PROCESS.contains(&name),
        }
    }

    /// Whether the default recording has it: what `-e trace=%file,%desc,%process` covers.
    pub fn recorded(self) -> bool {
        self.file || self.desc || self.process
    }
}

#[cfg(test)]
pub(super) const ALL: [&[&str]; 3] = [FILE, DESC, PROCESS];

#[rustfmt::skip]
const FILE: &[&str] = &[
    "access", "acct", "chdir", "chmod", "chown", "chown32", "chroot", "creat", "execve",
    "execveat", "faccessat", "faccessat2", "fanotify_mark", "fchmodat", "fchmodat2", "fchownat",
    "file_getattr", "file_setattr", "fsconfig", "fspick", "fstatat64", "futimesat", "getcwd",
    "getxattr", "getxattrat", "inotify_add_watch", "lchown", "lchown32", "lgetxattr", "link",
    "linkat", "listxattr", "listxattrat", "llistxattr", "lremovexattr", "lsetxattr", "lstat",
    "lstat64", "mkdir", "mkdirat", "mknod", "mknodat", "mount", "mount_setattr", "move_mount",
    "name_to_handle_at", "newfstatat", "oldlstat", "oldstat", "open", "open_tree",
    "open_tree_attr", "openat", "openat2", "pivot_root", "quotactl", "readlink", "readlinkat",
    "removexattr", "removexattrat", "rename", "renameat", "renameat2", "rmdir", "setxattr",
    "setxattrat", "stat", "stat64", "statfs", "statfs64", "statx", "swapoff", "swapon",
    "symlink", "symlinkat", "truncate", "truncate64", "umount", "umount2", "unlink", "unlinkat",
    "uselib", "utime", "utimensat", "utimensat_time64", "utimes",
];

#[rustfmt::skip]
const DESC: &[&str] = &[
    "_llseek", "_newselect", "bpf", "cachestat", "close", "copy_file_range",
    "creat", "dup", "dup2", "dup3", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait",
    "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2", "execveat", "faccessat", "faccessat2",
    "fadvise64", "fadvise64_64", "fallocate", "fanotify_init", "fanotify_mark", "fchdir",
    "fchmod", "fchmodat", "fchmodat2", "fchown", "fchown32", "fchownat", "fcntl", "fcntl64",
    "fdatasync", "fgetxattr", "file_getattr", "file_setattr", "finit_module", "flistxattr",
    "flock", "fremovexattr", "fsconfig", "fsetxattr", "fsmount", "fsopen", "fspick", "fstat",
    "fstat64", "fstatat64", "fstatfs", "fstatfs64", "fsync", "ftruncate", "ftruncate64",
    "futimesat", "getdents", "getdents64", "getxattrat", "inotify_add_watch", "inotify_init",
    "inotify_init1", "inotify_rm_watch", "io_uring_enter", "io_uring_register",
    "io_uring_setup", "ioctl", "kexec_file_load", "landlock_add_rule",
    "landlock_create_ruleset", "landlock_restrict_self", "linkat", "listxattrat", "lseek",
    "memfd_create", "memfd_secret", "mkdirat", "mknodat", "mmap", "mmap2", "mount_setattr",
    "move_mount", "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive",
    "mq_timedreceive_time64", "mq_timedsend", "mq_timedsend_time64", "name_to_handle_at",
    "newfstatat", "oldfstat", "open", "open_by_handle_at", "open_tree", "open_tree_attr",
    "openat", "openat2", "perf_event_open", "pidfd_getfd", "pidfd_open", "pidfd_send_signal",
    "pipe", "pipe2", "poll", "ppoll", "ppoll_time64", "pread64", "preadv", "preadv2",
    "process_madvise", "process_mrelease", "pselect6", "pselect6_time64", "pwrite64", "pwritev",
    "pwritev2", "quotactl_fd", "read", "readahead", "readdir", "readlinkat", "readv",
    "removexattrat", "renameat", "renameat2", "select", "sendfile", "sendfile64", "setns",
    "setxattrat", "signalfd", "signalfd4", "splice", "statx", "symlinkat", "sync_file_range",
    "syncfs", "tee", "timerfd_create", "timerfd_gettime", "timerfd_gettime64",
    "timerfd_settime", "timerfd_settime64", "unlinkat", "userfaultfd", "utimensat",
    "utimensat_time64", "vmsplice", "write", "writev",
];

#[rustfmt::skip]
const PROCESS: &[&str] = &[
    "clone", "clone3", "execve", "execveat", "exit", "exit_group", "fork", "kill",
    "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tgkill", "tkill", "vfork",
    "wait4", "waitid", "waitpid",
];
