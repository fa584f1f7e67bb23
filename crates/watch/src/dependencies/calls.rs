//! Which calls stop, and which are of no interest and run at full speed.

use libc::sock_filter;
use recording::Call;

use crate::shape::StopRule;
use crate::{arch, filter};

/// Calls that ask for nothing that outlives the process or comes from outside of it.
const HARMLESS: &[&str] = &[
    "arch_prctl",
    "brk",
    "clock_getres",
    "clock_gettime",
    "exit",
    "exit_group",
    "fadvise64",
    "futex",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getresgid",
    "getresuid",
    "getrlimit",
    "gettimeofday",
    "getuid",
    "madvise",
    "mprotect",
    "mremap",
    "munmap",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    "sigaltstack",
    "sysinfo",
    "time",
    "umask",
    "uname",
];

/// What is done with a file that the process has opened: that it was opened is known.
const OF_OPEN_FILES: &[&str] =
    &["close", "fstat", "getdents", "getdents64", "lseek", "pread64", "preadv", "read", "readv"];

/// Whether a call is harmless by its name.
pub(super) fn is_harmless(name: &str) -> bool {
    HARMLESS.binary_search(&name).is_ok()
}

fn rule(name: &str) -> Option<StopRule> {
    const EMPTY_PATH: u32 = libc::AT_EMPTY_PATH as u32;
    Some(match name {
        name if is_harmless(name) => StopRule::Never,
        name if OF_OPEN_FILES.contains(&name) => StopRule::UnlessOpened(0, None),
        // F_GETFD, F_SETFD, F_GETFL.
        "fcntl" => StopRule::UnlessOpened(0, Some((1, 1, 3))),
        "ioctl" => StopRule::UnlessOpened(0, Some((1, libc::TCGETS as u32, libc::TCGETS as u32))),
        // By an open file and an empty path, as the C library's fstat(3) asks: nothing else in these
        // programs gives these flags alone.
        "newfstatat" => StopRule::UnlessOpened(0, Some((3, EMPTY_PATH, EMPTY_PATH))),
        "mmap" => StopRule::UnlessMapsForItself,
        _ => return None,
    })
}

/// The filter of a followed process.
pub(super) fn filter() -> Vec<sock_filter> {
    let named = |call: Call| Some((call.number(), rule(call.known_name()?)?));
    let mut exceptions: Vec<(u16, StopRule)> = Call::all(arch::NATIVE).filter_map(named).collect();
    exceptions.sort_by_key(|(number, _)| *number);
    filter::build_but(&exceptions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        assert!(HARMLESS.is_sorted());
        assert!(is_harmless("brk") && is_harmless("uname") && !is_harmless("openat"));
        // A leaf of a section may be far from its question, the whole must fit (BPF_MAXINSNS).
        assert!(filter().len() < 4096);
    }

    /// A call, and whether it runs: nobody traces, so that one that stops fails with ENOSYS.
    const CALLS: [(libc::c_long, [i64; 6], bool); 21] = {
        const OPENED: i64 = 500; // which is none: EBADF
        const CWD: i64 = libc::AT_FDCWD as i64;
        const EMPTY: i64 = libc::AT_EMPTY_PATH as i64;
        const PRIVATE: i64 = libc::MAP_PRIVATE as i64;
        const SHARED: i64 = libc::MAP_SHARED as i64;
        const READ: i64 = libc::PROT_READ as i64;
        [
            (libc::SYS_getuid, [0; 6], true),
            (libc::SYS_getpid, [0; 6], false),
            (libc::SYS_read, [OPENED, 0, 0, 0, 0, 0], true),
            (libc::SYS_read, [0; 6], false),
            (libc::SYS_read, [-1, 0, 0, 0, 0, 0], false),
            (libc::SYS_close, [2, 0, 0, 0, 0, 0], false),
            (libc::SYS_fstat, [1, 0, 0, 0, 0, 0], false),
            (libc::SYS_write, [OPENED, 0, 0, 0, 0, 0], false),
            (libc::SYS_dup, [OPENED, 0, 0, 0, 0, 0], false),
            (libc::SYS_fcntl, [OPENED, libc::F_GETFL as i64, 0, 0, 0, 0], true),
            (libc::SYS_fcntl, [OPENED, libc::F_DUPFD as i64, 0, 0, 0, 0], false),
            (libc::SYS_fcntl, [OPENED, libc::F_SETFL as i64, 0, 0, 0, 0], false),
            (libc::SYS_ioctl, [OPENED, libc::TCGETS as i64, 0, 0, 0, 0], true),
            (libc::SYS_ioctl, [OPENED, libc::TIOCGWINSZ as i64, 0, 0, 0, 0], false),
            (libc::SYS_newfstatat, [OPENED, 0, 0, EMPTY, 0, 0], true),
            (libc::SYS_newfstatat, [CWD, 0, 0, EMPTY, 0, 0], false),
            (libc::SYS_newfstatat, [OPENED, 0, 0, 0, 0, 0], false),
            (libc::SYS_mmap, [0, 4096, READ, PRIVATE, OPENED, 0], true),
            (libc::SYS_mmap, [0, 4096, READ, PRIVATE, 1, 0], false),
            (libc::SYS_mmap, [0, 4096, READ, SHARED, OPENED, 0], false),
            (libc::SYS_openat, [CWD, 0, 0, 0, 0, 0], false),
        ]
    };

    #[test]
    fn only_calls_run_that_ask_for_nothing() {
        let filter = filter();
        for (at, (number, args, runs)) in CALLS.into_iter().enumerate() {
            let child = launch::forked(|| {
                if filter::install(&filter).is_err() {
                    return 2;
                }
                let [a, b, c, d, e, f] = args;
                // SAFETY: no address is given that the kernel would write to.
                let done = unsafe { libc::syscall(number, a, b, c, d, e, f) };
                let error = std::io::Error::last_os_error().raw_os_error();
                i32::from(done == -1 && error == Some(libc::ENOSYS))
            });
            let (status, _) = launch::wait_for(child.unwrap(), 0).unwrap().unwrap();
            assert_eq!(libc::WEXITSTATUS(status), i32::from(!runs), "call {at}");
        }
    }
}
