//! Sessions and process groups, by which a terminal chooses whom it signals (credentials(7)).
//!
//! Of a session or group whose leader is outside this PID namespace, as in a container that was
//! entered, the kernel says 0 (pid_namespaces(7)): no number that a `rustix::process::Pid` holds.

/// Whether the calling process leads its session, and is the one that hears of its terminal's end.
pub fn leads_session() -> bool {
    // SAFETY: passes and returns numbers.
    unsafe { libc::getsid(0) == libc::getpid() }
}

/// Whether a process is in the calling one's process group. One that is gone is not.
pub fn is_in_own_group(pid: i32) -> bool {
    are_in_one_group(pid, 0)
}

/// Whether two processes are in one process group; 0 is the calling one. Those that are gone are not.
pub fn are_in_one_group(one: i32, other: i32) -> bool {
    // SAFETY: passes and returns numbers.
    let group = |pid| unsafe { libc::getpgid(pid) };
    group(one) >= 0 && group(one) == group(other)
}
