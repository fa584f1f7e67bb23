//! One system call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Call, Kind, Nanos, PathId, ProcessId};

/// One system call: who made it, on what, with which result, when, for how long, and from
/// which code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Start, counted from the start of the recording.
    pub start: Nanos,
    /// From the call's entry to its return, the recorder's own stop included.
    pub took: Nanos,
    /// Which process.
    pub process: ProcessId,
    /// Which thread: the kernel's thread id.
    pub thread: u32,
    /// Which call.
    pub call: Call,
    /// What came back.
    pub outcome: Outcome,
    /// The full path that was asked for, or of the file that the descriptor was opened as.
    pub path: Option<PathId>,
    /// The second path of `rename` and `link`. (A symbolic link's text is no path.)
    pub other_path: Option<PathId>,
    /// The descriptor argument (the directory's, for the `…at` calls that were given one).
    pub fd: Option<i32>,
    /// The flags argument: open's flags, access's mode, mmap's protection, `AT_…` flags,
    /// clone's flags. 0 where the call has none.
    pub flags: u64,
    /// The file whose mapping holds the instruction that made the call; none where it lies in
    /// no file (code made at run time).
    pub site: Option<PathId>,
    /// Whether that file is the dynamic loader (the program's `PT_INTERP`).
    pub in_loader: bool,
    /// Whether the program itself had begun.
    pub phase: Phase,
    /// A call that can take a path, given only a descriptor: `newfstatat(fd, "",
    /// AT_EMPTY_PATH)`. It is not a lookup.
    pub by_descriptor: bool,
}

impl Event {
    /// A call of the command's own process at the recording's start, and nothing else known of it.
    pub fn new(call: Call, outcome: Outcome) -> Event {
        Event {
            start: Nanos(0),
            took: Nanos(0),
            process: ProcessId(0),
            thread: 0,
            call,
            outcome,
            path: None,
            other_path: None,
            fd: None,
            flags: 0,
            site: None,
            in_loader: false,
            phase: Phase::Running,
            by_descriptor: false,
        }
    }

    /// What the call asked of a filesystem.
    pub fn kind(&self) -> Kind {
        match self.call.kind() {
            Kind::Stat | Kind::Access | Kind::Readlink if self.by_descriptor => Kind::Fstat,
            kind => kind,
        }
    }

    /// Whether a metadata server would serve it. Calls that failed before any lookup (bad
    /// pointer, no such descriptor) are still counted: they are rare and cannot be told apart.
    pub fn is_metadata(&self) -> bool {
        self.kind().is_metadata()
    }

    /// Whether it asked for a symbolic link itself: `lstat`, AT_SYMLINK_NOFOLLOW, `readlink`.
    pub fn is_nofollow(&self) -> bool {
        const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
        match (self.kind(), self.call.known_name()) {
            (Kind::Readlink, _) => true,
            (Kind::Stat, Some("lstat" | "lstat64" | "oldlstat")) => true,
            (Kind::Stat, Some("newfstatat" | "fstatat64" | "statx")) => {
                self.flags & AT_SYMLINK_NOFOLLOW != 0
            }
            _ => false,
        }
    }

    /// Whether it asks for a directory's entries, or opens a directory to do so.
    pub fn is_listing(&self) -> bool {
        const O_DIRECTORY: u64 = 0o200000;
        self.kind() == Kind::List || (self.kind() == Kind::Open && self.flags & O_DIRECTORY != 0)
    }

    /// Whether it changes the tree: makes, renames or removes something.
    pub fn is_change(&self) -> bool {
        const O_CREAT: u64 = 0o100;
        self.kind() == Kind::Change || (self.kind() == Kind::Open && self.flags & O_CREAT != 0)
    }

    /// Whether it is a failed lookup: it ended with ENOENT or ENOTDIR.
    pub fn is_missing(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(libc_errno::ENOENT | libc_errno::ENOTDIR))
    }
}

/// The two errors that mean 'not there' (errno(3), the same on every Linux architecture).
mod libc_errno {
    pub const ENOENT: u16 = 2;
    pub const ENOTDIR: u16 = 20;
}

/// Whether the program had begun when a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Between exec and the first instruction outside the loader.
    Loading,
    /// After.
    Running,
}

/// What a call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The value, as a signed number (an address, for `mmap`).
    Returned(i64),
    /// The error number. Values from 512 are the kernel's own 'restart me' (ERESTARTSYS…).
    Failed(u16),
}

impl Outcome {
    /// Whether it is an error.
    pub fn failed(self) -> bool {
        matches!(self, Outcome::Failed(_))
    }
}

/// The error's name, e.g. `ENOENT`, or `E<number>` (the kernel's `errno-base.h`, `errno.h` and
/// the internal `linux/errno.h`).
pub fn errno_name(number: u16) -> std::borrow::Cow<'static, str> {
    match ERRNO.binary_search_by_key(&number, |(known, _)| *known) {
        Ok(at) => ERRNO[at].1.into(),
        Err(_) => format!("E{number}").into(),
    }
}

#[rustfmt::skip]
const ERRNO: &[(u16, &str)] = &[
    (1, "EPERM"), (2, "ENOENT"), (3, "ESRCH"), (4, "EINTR"), (5, "EIO"), (6, "ENXIO"),
    (7, "E2BIG"), (8, "ENOEXEC"), (9, "EBADF"), (10, "ECHILD"), (11, "EAGAIN"), (12, "ENOMEM"),
    (13, "EACCES"), (14, "EFAULT"), (15, "ENOTBLK"), (16, "EBUSY"), (17, "EEXIST"), (18, "EXDEV"),
    (19, "ENODEV"), (20, "ENOTDIR"), (21, "EISDIR"), (22, "EINVAL"), (23, "ENFILE"),
    (24, "EMFILE"), (25, "ENOTTY"), (26, "ETXTBSY"), (27, "EFBIG"), (28, "ENOSPC"),
    (29, "ESPIPE"), (30, "EROFS"), (31, "EMLINK"), (32, "EPIPE"), (33, "EDOM"), (34, "ERANGE"),
    (35, "EDEADLK"), (36, "ENAMETOOLONG"), (37, "ENOLCK"), (38, "ENOSYS"), (39, "ENOTEMPTY"),
    (40, "ELOOP"), (42, "ENOMSG"), (43, "EIDRM"), (44, "ECHRNG"), (45, "EL2NSYNC"),
    (46, "EL3HLT"), (47, "EL3RST"), (48, "ELNRNG"), (49, "EUNATCH"), (50, "ENOCSI"),
    (51, "EL2HLT"), (52, "EBADE"), (53, "EBADR"), (54, "EXFULL"), (55, "ENOANO"), (56, "EBADRQC"),
    (57, "EBADSLT"), (59, "EBFONT"), (60, "ENOSTR"), (61, "ENODATA"), (62, "ETIME"),
    (63, "ENOSR"), (64, "ENONET"), (65, "ENOPKG"), (66, "EREMOTE"), (67, "ENOLINK"), (68, "EADV"),
    (69, "ESRMNT"), (70, "ECOMM"), (71, "EPROTO"), (72, "EMULTIHOP"), (73, "EDOTDOT"),
    (74, "EBADMSG"), (75, "EOVERFLOW"), (76, "ENOTUNIQ"), (77, "EBADFD"), (78, "EREMCHG"),
    (79, "ELIBACC"), (80, "ELIBBAD"), (81, "ELIBSCN"), (82, "ELIBMAX"), (83, "ELIBEXEC"),
    (84, "EILSEQ"), (85, "ERESTART"), (86, "ESTRPIPE"), (87, "EUSERS"), (88, "ENOTSOCK"),
    (89, "EDESTADDRREQ"), (90, "EMSGSIZE"), (91, "EPROTOTYPE"), (92, "ENOPROTOOPT"),
    (93, "EPROTONOSUPPORT"), (94, "ESOCKTNOSUPPORT"), (95, "EOPNOTSUPP"), (96, "EPFNOSUPPORT"),
    (97, "EAFNOSUPPORT"), (98, "EADDRINUSE"), (99, "EADDRNOTAVAIL"), (100, "ENETDOWN"),
    (101, "ENETUNREACH"), (102, "ENETRESET"), (103, "ECONNABORTED"), (104, "ECONNRESET"),
    (105, "ENOBUFS"), (106, "EISCONN"), (107, "ENOTCONN"), (108, "ESHUTDOWN"),
    (109, "ETOOMANYREFS"), (110, "ETIMEDOUT"), (111, "ECONNREFUSED"), (112, "EHOSTDOWN"),
    (113, "EHOSTUNREACH"), (114, "EALREADY"), (115, "EINPROGRESS"), (116, "ESTALE"),
    (117, "EUCLEAN"), (118, "ENOTNAM"), (119, "ENAVAIL"), (120, "EISNAM"), (121, "EREMOTEIO"),
    (122, "EDQUOT"), (123, "ENOMEDIUM"), (124, "EMEDIUMTYPE"), (125, "ECANCELED"),
    (126, "ENOKEY"), (127, "EKEYEXPIRED"), (128, "EKEYREVOKED"), (129, "EKEYREJECTED"),
    (130, "EOWNERDEAD"), (131, "ENOTRECOVERABLE"), (132, "ERFKILL"), (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"), (514, "ERESTARTNOHAND"), (515, "ENOIOCTLCMD"),
    (516, "ERESTART_RESTARTBLOCK"), (524, "ENOTSUPP"),
];
