//! Numbers and bytes as strace spells them.

use std::borrow::Cow;

/// What is known of a call's arguments, in their order: a letter each.
///
/// `d` the directory's descriptor, `f` a descriptor, `p` the path, `q` the second path, `D` the
/// working directory (the second path's: it is full), `o` open's flags, `O` the same within
/// openat2's structure, `m` access's mode, `a` AT_ flags, `u` unlinkat's, `r` mmap's
/// protection, `c` clone's flags, `v` execve's argv, `.` not recorded.
pub(super) fn arguments(name: &str) -> &'static [u8] {
    match name {
        "open" => b"po",
        "openat" => b"dpo",
        "openat2" => b"dpO.",
        "creat" | "mkdir" | "mknod" | "chmod" | "truncate" | "truncate64" | "utime" | "utimes"
        | "stat" | "lstat" | "stat64" | "lstat64" | "statfs" => b"p.",
        "access" => b"pm",
        "faccessat" => b"dpm",
        "faccessat2" => b"dpm.",
        "newfstatat" | "fstatat64" => b"dp.a",
        "statx" => b"dpa..",
        "readlink" | "chown" | "lchown" | "listxattr" | "llistxattr" => b"p..",
        "readlinkat" => b"dp..",
        "getxattr" | "lgetxattr" => b"p...",
        "mkdirat" | "fchmodat" | "futimesat" => b"dp.",
        "mknodat" => b"dp..",
        "fchmodat2" | "utimensat" => b"dp.a",
        "fchownat" => b"dp..a",
        "unlink" | "rmdir" | "chdir" | "chroot" | "acct" | "swapoff" | "uselib" => b"p",
        "unlinkat" => b"dpu",
        "rename" | "link" => b"pq",
        "renameat" => b"dpDq",
        "renameat2" => b"dpDq.",
        "linkat" => b"dpDqa",
        "symlink" => b".p",
        "symlinkat" => b".dp",
        "execve" => b"pv.",
        "execveat" => b"dpv.a",
        "close" | "dup" | "fchdir" | "fsync" | "fdatasync" => b"f",
        "fstat" | "fstat64" | "dup2" | "fstatfs" | "fcntl" | "ioctl" => b"f.",
        "read" | "write" | "readv" | "writev" | "getdents" | "getdents64" | "lseek" => b"f..",
        "pread64" | "pwrite64" => b"f...",
        "mmap" | "mmap2" => b"..r.f.",
        "clone" => b".c",
        "fork" | "vfork" | "getpid" | "getppid" | "getuid" | "geteuid" | "getgid" | "getegid"
        | "gettid" => b"",
        _ => b".",
    }
}

/// Whether a call's result is an address, which strace prints in hexadecimal.
pub(super) fn returns_address(name: &str) -> bool {
    matches!(name, "mmap" | "mmap2" | "mremap" | "brk" | "shmat")
}

/// Flag names by value; what several bits name comes before its parts.
type FlagNames = &'static [(u64, &'static str)];

/// `asm-generic/fcntl.h`, in the order of strace's table.
#[rustfmt::skip]
const OPEN: FlagNames = &[
    (0o100, "O_CREAT"), (0o200, "O_EXCL"), (0o400, "O_NOCTTY"), (0o1000, "O_TRUNC"),
    (0o2000, "O_APPEND"), (0o4000, "O_NONBLOCK"), (0o4010000, "O_SYNC"), (0o10000, "O_DSYNC"),
    (0o20000, "FASYNC"), (0o40000, "O_DIRECT"), (0o100000, "O_LARGEFILE"),
    (0o400000, "O_NOFOLLOW"), (0o1000000, "O_NOATIME"), (0o2000000, "O_CLOEXEC"),
    (0o10000000, "O_PATH"), (0o20200000, "O_TMPFILE"), (0o200000, "O_DIRECTORY"),
];

/// `unistd.h`.
const ACCESS: FlagNames = &[(4, "R_OK"), (2, "W_OK"), (1, "X_OK")];

/// `linux/fcntl.h`.
#[rustfmt::skip]
const AT: FlagNames = &[
    (0x100, "AT_SYMLINK_NOFOLLOW"), (0x400, "AT_SYMLINK_FOLLOW"), (0x800, "AT_NO_AUTOMOUNT"),
    (0x1000, "AT_EMPTY_PATH"), (0x2000, "AT_STATX_FORCE_SYNC"), (0x4000, "AT_STATX_DONT_SYNC"),
    (0x8000, "AT_RECURSIVE"),
];

/// `asm-generic/mman-common.h`.
const PROTECTION: FlagNames = &[(1, "PROT_READ"), (2, "PROT_WRITE"), (4, "PROT_EXEC")];

/// `linux/sched.h`.
#[rustfmt::skip]
const CLONE: FlagNames = &[
    (0x100, "CLONE_VM"), (0x200, "CLONE_FS"), (0x400, "CLONE_FILES"), (0x800, "CLONE_SIGHAND"),
    (0x1000, "CLONE_PIDFD"), (0x2000, "CLONE_PTRACE"), (0x4000, "CLONE_VFORK"),
    (0x8000, "CLONE_PARENT"), (0x10000, "CLONE_THREAD"), (0x20000, "CLONE_NEWNS"),
    (0x40000, "CLONE_SYSVSEM"), (0x80000, "CLONE_SETTLS"), (0x100000, "CLONE_PARENT_SETTID"),
    (0x200000, "CLONE_CHILD_CLEARTID"), (0x400000, "CLONE_DETACHED"),
    (0x800000, "CLONE_UNTRACED"), (0x1000000, "CLONE_CHILD_SETTID"),
    (0x2000000, "CLONE_NEWCGROUP"), (0x4000000, "CLONE_NEWUTS"), (0x8000000, "CLONE_NEWIPC"),
    (0x10000000, "CLONE_NEWUSER"), (0x20000000, "CLONE_NEWPID"), (0x40000000, "CLONE_NEWNET"),
    (0x80000000, "CLONE_IO"),
];

/// The names of the bits that are set, and what has no name in hexadecimal; `none` if no bit
/// is set.
fn symbolic(flags: u64, names: FlagNames, none: &str) -> String {
    let mut parts = Vec::new();
    let mut rest = flags;
    for (bits, name) in names.iter().filter(|(bits, _)| flags & bits == *bits) {
        if rest & bits != 0 {
            parts.push(Cow::Borrowed(*name));
            rest &= !bits;
        }
    }
    if rest != 0 {
        parts.push(format!("{rest:#x}").into());
    }
    if parts.is_empty() { none.into() } else { parts.join("|") }
}

pub(super) fn open_flags(flags: u64) -> String {
    let mode = ["O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"][(flags & 3) as usize];
    match flags & !3 {
        0 => mode.into(),
        rest => format!("{mode}|{}", symbolic(rest, OPEN, "")),
    }
}

pub(super) fn access_mode(mode: u64) -> String {
    symbolic(mode, ACCESS, "F_OK")
}

pub(super) fn at_flags(flags: u64) -> String {
    symbolic(flags, AT, "0")
}

pub(super) fn unlink_flags(flags: u64) -> String {
    symbolic(flags, &[(0x200, "AT_REMOVEDIR")], "0")
}

pub(super) fn protection(flags: u64) -> String {
    symbolic(flags, PROTECTION, "PROT_NONE")
}

/// clone's flags, and the signal that its end sends in their low byte.
pub(super) fn clone_flags(flags: u64) -> String {
    let flag_bits = symbolic(flags & !0xff, CLONE, "");
    match (flags as u8, flag_bits.is_empty()) {
        (0, true) => "0".into(),
        (0, false) => flag_bits,
        (number, true) => signal(number),
        (number, false) => format!("{flag_bits}|{}", signal(number)),
    }
}

/// signal(7), and strace's names of real-time signals.
pub(super) fn signal(number: u8) -> String {
    #[rustfmt::skip]
    const NAMES: [&str; 32] = [
        "0", "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE",
        "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM",
        "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG",
        "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS",
    ];
    match number {
        0..=31 => NAMES[usize::from(number)].into(),
        32 => "SIGRTMIN".into(),
        33..=64 => format!("SIGRT_{}", number - 32),
        _ => number.to_string(),
    }
}

/// What an error means, as strerror(3) says it; for the kernel's own, as strace does.
pub(super) fn message(number: u16) -> String {
    match number {
        512 => return "To be restarted if SA_RESTART is set".into(),
        513 => return "To be restarted".into(),
        514 => return "To be restarted if no handler".into(),
        516 => return "Interrupted by signal".into(),
        _ => {}
    }
    let text = std::io::Error::from_raw_os_error(i32::from(number)).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Bytes as a C string: what is not printable ASCII as C's escapes or in octal, as short as
/// the next byte allows.
pub(super) fn quote(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 2);
    text.push('"');
    for (at, byte) in bytes.iter().enumerate() {
        let digit_follows = bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            0x0b => text.push_str("\\v"),
            0x0c => text.push_str("\\f"),
            b' '..=b'~' => text.push(char::from(*byte)),
            byte if digit_follows => text += &format!("\\{byte:03o}"),
            byte => text += &format!("\\{byte:o}"),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The right sides are what strace 6.1 printed for the left.
    #[test]
    fn numbers_and_bytes_are_spelled_as_strace_spells_them() {
        assert_eq!(open_flags(0o2302), "O_RDWR|O_CREAT|O_EXCL|O_APPEND");
        assert_eq!(open_flags(0o2204000), "O_RDONLY|O_NONBLOCK|O_CLOEXEC|O_DIRECTORY");
        assert_eq!(open_flags(0o22200002), "O_RDWR|O_CLOEXEC|O_TMPFILE");
        assert_eq!(open_flags(0o12600000), "O_RDONLY|O_NOFOLLOW|O_CLOEXEC|O_PATH|O_DIRECTORY");
        assert_eq!(access_mode(6), "R_OK|W_OK");
        assert_eq!(access_mode(0), "F_OK");
        assert_eq!(at_flags(0x1000), "AT_EMPTY_PATH");
        assert_eq!(at_flags(0), "0");
        assert_eq!(clone_flags(0x1200011), "CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD");
        assert_eq!(message(2), "No such file or directory");
        assert_eq!(quote(b"/tmp/a\xc3\xa9"), r#""/tmp/a\303\251""#);
        assert_eq!(quote(b"/tmp/\xff\xfe1"), r#""/tmp/\377\3761""#);
        assert_eq!(quote(b"/tmp/x\n1\t\"q\\"), r#""/tmp/x\n1\t\"q\\""#);
        assert_eq!(quote(b"/tmp/\x017"), r#""/tmp/\0017""#);
        assert_eq!(quote(b"/tmp/\x01x"), r#""/tmp/\1x""#);
    }
}
