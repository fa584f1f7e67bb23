//! What each system call's arguments mean, and which calls the tracer stops at.

use recording::{Abi, Call, Kind};

use crate::{RecordedStarts, arch};

/// When a call stops for the tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopRule {
    /// Not at all.
    Never,
    /// Always.
    Always,
    /// If the low half of this argument has this value.
    IfArgument(u8, u32),
}

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

/// How much of a run is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every system call.
    All,
    /// strace's `%file,%desc,%process`.
    Default,
    /// What starts processes, and when their loader is done.
    Starts(RecordedStarts),
}

/// The meaning of one call's arguments, by their places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallShape {
    /// Whether the call becomes an event.
    pub recorded: bool,
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

    const NONE: CallShape = CallShape {
        recorded: false,
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

/// The shapes of all calls of the machine's tables.
pub(crate) struct CallShapes {
    tables: Vec<TableShapes>,
}

/// The shapes of one table.
pub(crate) struct TableShapes {
    /// The audit architecture by which the filter knows it.
    pub arch: u32,
    abi: Abi,
    shapes: Vec<CallShape>,
    /// Where the filter stops, by number, ascending.
    pub stops: Vec<(u16, StopRule)>,
}

/// Native calls that are about descriptors only, need nothing done before they are made, and can
/// therefore be reported afterwards, by a tap, instead of stopping.
pub(crate) fn tappable() -> Vec<u16> {
    let (shapes, _) = table(arch::NATIVE, Extent::Default);
    Call::all(arch::NATIVE)
        .filter(|call| {
            let (class, shape) = (call.class(), &shapes[usize::from(call.number())]);
            let after = matches!(
                shape.special,
                Special::None
                    | Special::Close
                    | Special::Dup
                    | Special::DupTo
                    | Special::Fcntl
                    | Special::Map
                    | Special::Fchdir
            );
            class.desc && !class.file && !class.process && after
        })
        .map(Call::number)
        .collect()
}

impl CallShapes {
    /// The shapes for a recording of so much.
    pub fn new(extent: Extent) -> CallShapes {
        let shapes_of = |(arch, abi)| {
            let (shapes, stops) = table(abi, extent);
            TableShapes { arch, abi, shapes, stops }
        };
        CallShapes { tables: arch::TABLES.into_iter().map(shapes_of).collect() }
    }

    /// Has these native calls run through.
    pub fn without(mut self, tapped: &[u16]) -> CallShapes {
        for table in self.tables.iter_mut().filter(|table| table.abi == arch::NATIVE) {
            table.stops.retain(|(number, _)| !tapped.contains(number));
        }
        self
    }

    /// The tables, the machine's own first.
    pub fn tables(&self) -> &[TableShapes] {
        &self.tables
    }

    /// The shape of a call; of one that no table knows, that of a call without arguments.
    pub fn of(&self, call: Call) -> CallShape {
        let abi = if call.abi() == Abi::X32 { Abi::X86_64 } else { call.abi() };
        let table = self.tables.iter().find(|table| table.abi == abi);
        let shape = table.and_then(|table| table.shapes.get(usize::from(call.number())));
        shape.copied().unwrap_or(CallShape::NONE)
    }
}

fn table(abi: Abi, extent: Extent) -> (Vec<CallShape>, Vec<(u16, StopRule)>) {
    let (mut shapes, mut stops) = (Vec::new(), Vec::new());
    let is_starts = matches!(extent, Extent::Starts(_));
    for call in Call::all(abi) {
        let name = call.known_name().unwrap_or_default();
        let mut shape = match (abi, name) {
            // The old 32-bit mmap has its arguments in a structure.
            (Abi::I386, "mmap") => CallShape::NONE,
            _ => shape_of(name),
        };
        shape.kind = call.kind();
        // A call that never returns is never an event.
        let returns = !matches!(name, "exit" | "exit_group");
        shape.recorded = returns
            && match extent {
                Extent::All => true,
                Extent::Default => call.class().recorded(),
                Extent::Starts(_) => is_of_starts(shape.special),
            };
        match name {
            "readlink" if is_starts => shape.special = Special::Told,
            "open" | "openat" if extent == Extent::Starts(RecordedStarts::AndLocales) => {
                (shape.special, shape.recorded) = (Special::Locale, true);
            }
            _ => {}
        }
        let stop = match name {
            "prlimit64" if extent != Extent::All => StopRule::IfArgument(1, libc::RLIMIT_STACK),
            _ if shape.recorded => StopRule::Always,
            "prctl" => StopRule::IfArgument(0, libc::PR_SET_SECCOMP as u32),
            _ if is_starts && is_of_files(shape.special) => StopRule::Never,
            _ if shape.special != Special::None => StopRule::Always,
            _ => StopRule::Never,
        };
        let number = usize::from(call.number());
        if shapes.len() <= number {
            let recorded = extent == Extent::All;
            shapes.resize(number + 1, CallShape { recorded, ..CallShape::NONE });
        }
        shapes[number] = shape;
        if stop != StopRule::Never {
            stops.push((call.number(), stop));
        }
    }
    (shapes, stops)
}

/// What starts a process, tells who waited for it, or where it is started.
fn is_of_starts(special: Special) -> bool {
    matches!(
        special,
        Special::Exec
            | Special::Fork
            | Special::Vfork
            | Special::Clone
            | Special::Clone3
            | Special::Wait
            | Special::Waitid
            | Special::Chdir
            | Special::Fchdir
            | Special::StackLimit
    )
}

/// What has to be done at a call only for the sake of calls on files that come later.
fn is_of_files(special: Special) -> bool {
    matches!(
        special,
        Special::Open
            | Special::Openat2
            | Special::Close
            | Special::CloseRange
            | Special::Dup
            | Special::DupTo
            | Special::Fcntl
            | Special::Map
            | Special::Rename
    )
}

/// The arguments of a call, from its section-2 man page.
fn shape_of(name: &str) -> CallShape {
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
        | "lchown32" | "utime" | "utimes" | "acct" | "swapon" | "swapoff" | "uselib" | "umount"
        | "umount2" => CallShape::path(0),
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
        "mount" => CallShape::path(1),
        "move_mount" => CallShape::at(0, 1).to_at(2, 3).flags(4),
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
    use super::*;

    fn named(name: &str) -> Call {
        Call::all(arch::NATIVE).find(|call| call.known_name() == Some(name)).unwrap()
    }

    fn shape(name: &str) -> CallShape {
        CallShapes::new(Extent::Default).of(named(name))
    }

    #[test]
    fn every_call_of_the_file_class_has_a_path() {
        let without = ["getcwd", "fsconfig", "execveat"];
        for call in [Abi::X86_64, Abi::I386, Abi::Aarch64].into_iter().flat_map(Call::all) {
            let name = call.known_name().unwrap();
            if call.class().file && !without.contains(&name) {
                assert!(shape_of(name).path.is_some(), "{name}");
            }
        }
    }

    #[test]
    fn a_tap_reports_descriptor_calls_and_no_path_is_missed_by_it() {
        let tapped = tappable();
        let has = |name: &str| tapped.contains(&named(name).number());
        assert!(has("read") && has("close") && has("mmap") && has("getdents64") && has("fcntl"));
        assert!(!has("openat") && !has("setns") && !has("io_uring_setup") && !has("wait4"));
    }

    #[test]
    fn the_default_recording_stops_at_its_classes_and_at_what_the_tracer_must_know() {
        let shapes = CallShapes::new(Extent::Default);
        let stops = |name: &str| {
            let number = named(name).number();
            shapes.tables()[0]
                .stops
                .iter()
                .find(|(known, _)| *known == number)
                .map(|(_, stop)| *stop)
        };
        assert_eq!(stops("openat"), Some(StopRule::Always));
        assert_eq!(stops("close_range"), Some(StopRule::Always));
        assert!(!shape("close_range").recorded);
        assert_eq!(stops("futex"), None);
        assert_eq!(stops("prctl"), Some(StopRule::IfArgument(0, 22)));
    }
}
