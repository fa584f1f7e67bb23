//! What each system call's arguments mean, and which calls the tracer stops at.

use recording::{Abi, Call, Kind};

use crate::Starts;

/// When a call stops for the tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
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
    Starts(Starts),
}

/// The meaning of one call's arguments, by their places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
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

impl Shape {
    const fn path(path: u8) -> Shape {
        Shape { path: Some(path), ..Shape::NONE }
    }

    const fn at(at: u8, path: u8) -> Shape {
        Shape { at: Some(at), path: Some(path), ..Shape::NONE }
    }

    const fn fd(fd: u8) -> Shape {
        Shape { fd: Some(fd), ..Shape::NONE }
    }

    const fn flags(self, flags: u8) -> Shape {
        Shape { flags: Some(flags), ..self }
    }

    const fn at_flags(self, flags: u8) -> Shape {
        Shape { at_flags: Some(flags), ..self }
    }

    const fn to(self, path: u8) -> Shape {
        Shape { other_path: Some(path), ..self }
    }

    const fn to_at(self, at: u8, path: u8) -> Shape {
        Shape { other_at: Some(at), other_path: Some(path), ..self }
    }

    const fn special(self, special: Special) -> Shape {
        Shape { special, ..self }
    }

    const NONE: Shape = Shape {
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
pub(crate) struct Shapes {
    native_shapes: Vec<Shape>,
    i386_shapes: Vec<Shape>,
    /// Where the filter stops, by number, ascending.
    pub native: Vec<(u16, Stop)>,
    pub i386: Vec<(u16, Stop)>,
}

/// Native calls that are about descriptors only, need nothing done before they are made, and can
/// therefore be reported afterwards, by a tap, instead of stopping.
pub(crate) fn tappable() -> Vec<u16> {
    let (shapes, _) = table(Abi::X86_64, Extent::Default);
    Call::all(Abi::X86_64)
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

impl Shapes {
    /// The shapes for a recording of so much.
    pub fn new(extent: Extent) -> Shapes {
        let (native_shapes, native) = table(Abi::X86_64, extent);
        let (i386_shapes, i386) = table(Abi::I386, extent);
        Shapes { native_shapes, i386_shapes, native, i386 }
    }

    /// Has these native calls run through.
    pub fn without(mut self, tapped: &[u16]) -> Shapes {
        self.native.retain(|(number, _)| !tapped.contains(number));
        self
    }

    /// The shape of a call; of one that no table knows, that of a call without arguments.
    pub fn of(&self, call: Call) -> Shape {
        let shapes = match call.abi() {
            Abi::I386 => &self.i386_shapes,
            Abi::X86_64 | Abi::X32 | Abi::Aarch64 => &self.native_shapes,
        };
        shapes.get(usize::from(call.number())).copied().unwrap_or(Shape::NONE)
    }
}

fn table(abi: Abi, extent: Extent) -> (Vec<Shape>, Vec<(u16, Stop)>) {
    let (mut shapes, mut stops) = (Vec::new(), Vec::new());
    let is_starts = matches!(extent, Extent::Starts(_));
    for call in Call::all(abi) {
        let name = call.known_name().unwrap_or_default();
        let mut shape = match (abi, name) {
            // The old 32-bit mmap has its arguments in a structure.
            (Abi::I386, "mmap") => Shape::NONE,
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
            "open" | "openat" if extent == Extent::Starts(Starts::AndLocales) => {
                (shape.special, shape.recorded) = (Special::Locale, true);
            }
            _ => {}
        }
        let stop = match name {
            "prlimit64" if extent != Extent::All => Stop::IfArgument(1, libc::RLIMIT_STACK),
            _ if shape.recorded => Stop::Always,
            "prctl" => Stop::IfArgument(0, libc::PR_SET_SECCOMP as u32),
            _ if is_starts && is_of_files(shape.special) => Stop::Never,
            _ if shape.special != Special::None => Stop::Always,
            _ => Stop::Never,
        };
        let number = usize::from(call.number());
        if shapes.len() <= number {
            let recorded = extent == Extent::All;
            shapes.resize(number + 1, Shape { recorded, ..Shape::NONE });
        }
        shapes[number] = shape;
        if stop != Stop::Never {
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
fn shape_of(name: &str) -> Shape {
    match name {
        "open" => Shape::path(0).flags(1).special(Special::Open),
        "creat" => Shape::path(0).special(Special::Open),
        "openat" => Shape::at(0, 1).flags(2).special(Special::Open),
        "openat2" => Shape::at(0, 1).special(Special::Openat2),
        "open_tree" | "open_tree_attr" => {
            Shape::at(0, 1).flags(2).at_flags(2).special(Special::Open)
        }
        "name_to_handle_at" => Shape::at(0, 1).flags(4).at_flags(4),
        "fspick" | "inotify_add_watch" => Shape::at(0, 1).flags(2),
        "stat" | "lstat" | "stat64" | "lstat64" | "oldstat" | "oldlstat" | "statfs"
        | "statfs64" | "readlink" | "getxattr" | "lgetxattr" | "listxattr" | "llistxattr"
        | "setxattr" | "lsetxattr" | "removexattr" | "lremovexattr" | "truncate" | "truncate64"
        | "unlink" | "rmdir" | "mkdir" | "mknod" | "chmod" | "chown" | "lchown" | "chown32"
        | "lchown32" | "utime" | "utimes" | "acct" | "swapon" | "swapoff" | "uselib" | "umount"
        | "umount2" => Shape::path(0),
        "access" => Shape::path(0).flags(1),
        "chdir" => Shape::path(0).special(Special::Chdir),
        "chroot" => Shape::path(0).special(Special::Root),
        "pivot_root" => Shape::path(0).to(1).special(Special::Root),
        "newfstatat" | "fstatat64" => Shape::at(0, 1).flags(3).at_flags(3),
        "statx" => Shape::at(0, 1).flags(2).at_flags(2),
        "file_getattr" | "file_setattr" => Shape::at(0, 1).flags(4).at_flags(4),
        "getxattrat" | "setxattrat" | "listxattrat" | "removexattrat" | "mount_setattr" => {
            Shape::at(0, 1).flags(2).at_flags(2)
        }
        "faccessat" => Shape::at(0, 1).flags(2),
        "faccessat2" => Shape::at(0, 1).flags(2).at_flags(3),
        // An empty path with a descriptor means the descriptor, without a flag (readlink(2)).
        "readlinkat" | "mkdirat" | "mknodat" | "futimesat" => Shape::at(0, 1),
        "fchmodat" => Shape::at(0, 1),
        "fchmodat2" | "utimensat" | "utimensat_time64" => Shape::at(0, 1).flags(3).at_flags(3),
        "fchownat" => Shape::at(0, 1).flags(4).at_flags(4),
        "unlinkat" => Shape::at(0, 1).flags(2),
        "rename" => Shape::path(0).to(1).special(Special::Rename),
        "renameat" | "renameat2" => Shape::at(0, 1).to_at(2, 3).special(Special::Rename),
        "link" => Shape::path(0).to(1),
        "linkat" => Shape::at(0, 1).to_at(2, 3).flags(4).at_flags(4),
        // The first path of a symbolic link is text, not a lookup: the link is what is made.
        "symlink" => Shape::path(1),
        "symlinkat" => Shape::at(1, 2),
        "mount" => Shape::path(1),
        "move_mount" => Shape::at(0, 1).to_at(2, 3).flags(4),
        "fanotify_mark" => Shape::at(3, 4),
        "quotactl" => Shape::path(1),
        "execve" => Shape::path(0).special(Special::Exec),
        "execveat" => Shape::at(0, 1).flags(4).at_flags(4).special(Special::Exec),
        "fork" => Shape::NONE.special(Special::Fork),
        "vfork" => Shape::NONE.special(Special::Vfork),
        "clone" => Shape::NONE.flags(0).special(Special::Clone),
        "clone3" => Shape::NONE.special(Special::Clone3),
        "wait4" | "waitpid" => Shape::NONE.special(Special::Wait),
        "waitid" => Shape::NONE.special(Special::Waitid),
        "close" => Shape::fd(0).special(Special::Close),
        "close_range" => Shape::NONE.special(Special::CloseRange),
        "dup" => Shape::fd(0).special(Special::Dup),
        "dup2" | "dup3" => Shape::fd(0).special(Special::DupTo),
        "fcntl" | "fcntl64" => Shape::fd(0).flags(1).special(Special::Fcntl),
        "mmap" => Shape::fd(4).flags(2).special(Special::Map),
        "mmap2" => Shape::fd(4).flags(2).special(Special::Map),
        "fchdir" => Shape::fd(0).special(Special::Fchdir),
        "ioctl" => Shape::fd(0).flags(1),
        "read" | "write" | "readv" | "writev" | "pread64" | "pwrite64" | "preadv" | "pwritev"
        | "preadv2" | "pwritev2" | "lseek" | "_llseek" | "fstat" | "fstat64" | "oldfstat"
        | "fstatfs" | "fstatfs64" | "getdents" | "getdents64" | "readdir" | "fchmod" | "fchown"
        | "fchown32" | "ftruncate" | "ftruncate64" | "fsync" | "fdatasync" | "fallocate"
        | "fadvise64" | "fadvise64_64" | "flock" | "fgetxattr" | "flistxattr" | "fsetxattr"
        | "fremovexattr" | "readahead" | "sync_file_range" | "syncfs" | "epoll_wait"
        | "epoll_ctl" | "epoll_pwait" | "epoll_pwait2" | "sendfile" | "sendfile64" | "splice"
        | "tee" | "copy_file_range" | "vmsplice" => Shape::fd(0),
        "setns" => Shape::fd(0).special(Special::Root),
        "unshare" => Shape::NONE.flags(0).special(Special::Unshare),
        "ptrace" => Shape::NONE.special(Special::Ptrace),
        "seccomp" | "prctl" => Shape::NONE.special(Special::OwnFilter),
        "io_uring_setup" => Shape::NONE.special(Special::IoUring),
        "sched_getaffinity" | "sched_setaffinity" => Shape::NONE.special(Special::Affinity),
        "prlimit64" => Shape::NONE.special(Special::StackLimit),
        _ => Shape::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(name: &str) -> Shape {
        Shapes::new(Extent::Default).of(Call::named(name).unwrap())
    }

    #[test]
    fn every_call_of_the_file_class_has_a_path() {
        let without = ["getcwd", "fsconfig", "execveat"];
        for call in Call::all(Abi::X86_64).chain(Call::all(Abi::I386)) {
            let name = call.known_name().unwrap();
            if call.class().file && !without.contains(&name) {
                assert!(shape_of(name).path.is_some(), "{name}");
            }
        }
    }

    #[test]
    fn a_tap_reports_descriptor_calls_and_no_path_is_missed_by_it() {
        let tapped = tappable();
        let has = |name: &str| tapped.contains(&Call::named(name).unwrap().number());
        assert!(has("read") && has("close") && has("mmap") && has("getdents64") && has("fcntl"));
        assert!(!has("openat") && !has("setns") && !has("io_uring_setup") && !has("wait4"));
    }

    #[test]
    fn the_default_recording_stops_at_its_classes_and_at_what_the_tracer_must_know() {
        let shapes = Shapes::new(Extent::Default);
        let stops = |name: &str| {
            let number = Call::named(name).unwrap().number();
            shapes.native.iter().find(|(known, _)| *known == number).map(|(_, stop)| *stop)
        };
        assert_eq!(stops("openat"), Some(Stop::Always));
        assert_eq!(stops("close_range"), Some(Stop::Always));
        assert!(!shape("close_range").recorded);
        assert_eq!(stops("futex"), None);
        assert_eq!(stops("prctl"), Some(Stop::IfArgument(0, 22)));
    }
}
