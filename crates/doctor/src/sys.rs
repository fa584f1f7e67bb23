//! The system calls that probes make in their children: no allocation, errors as [`ProbeStop`].

use std::ffi::CStr;
use std::io::{Cursor, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount_change};
use rustix::process::{Pid, getegid, geteuid};

use crate::child::ProbeStop;

/// The value that a call of the C library's returned, or what stopped it.
pub(crate) fn checked(call: &'static str, returned: i64) -> Result<u64, ProbeStop> {
    u64::try_from(returned).map_err(|_| ProbeStop::last(call))
}

/// What stopped a call of rustix's.
pub(crate) fn refused(call: &'static str) -> impl FnOnce(Errno) -> ProbeStop {
    move |error| ProbeStop::Error { call, errno: error.raw_os_error() }
}

/// Forks a process that runs `body` and ends with its value. `body` must make system calls only:
/// this process may have more threads than the one that is copied.
pub(crate) fn fork(body: impl FnOnce() -> u8) -> Result<Pid, ProbeStop> {
    // SAFETY: what the child runs is `body`, and it never returns from here.
    match unsafe { libc::fork() } {
        0 => end(body()),
        -1 => Err(ProbeStop::last("fork")),
        child => Pid::from_raw(child).ok_or_else(|| ProbeStop::last("fork")),
    }
}

/// Ends this process, and runs nothing of what was to be run at its end.
pub(crate) fn end(status: u8) -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(status.into()) }
}

/// Opens `path`.
pub(crate) fn open(call: &'static str, path: &CStr, flags: OFlags) -> Result<OwnedFd, ProbeStop> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(refused(call))
}

/// Writes `text` to a file of `/proc`, in one piece.
fn write(call: &'static str, path: &CStr, text: &[u8]) -> Result<(), ProbeStop> {
    let file = open(call, path, OFlags::WRONLY)?;
    rustix::io::write(file, text).map(drop).map_err(refused(call))
}

/// `unshare(2)`.
pub(crate) fn unshare(call: &'static str, flags: i32) -> Result<(), ProbeStop> {
    // SAFETY: changes this process's namespaces only; nobody asks for CLONE_FILES.
    checked(call, unsafe { libc::unshare(flags) }.into()).map(|_| ())
}

/// `mount(2)`.
pub(crate) fn mount(
    call: &'static str,
    source: &CStr,
    target: &CStr,
    fs: &CStr,
    flags: MountFlags,
    options: &CStr,
) -> Result<(), ProbeStop> {
    rustix::mount::mount(source, target, fs, flags, options).map_err(refused(call))
}

/// Enters a user namespace in which this process is root (user_namespaces(7)).
pub(crate) fn become_root_of_a_user_namespace() -> Result<(), ProbeStop> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    unshare("unshare(CLONE_NEWUSER)", libc::CLONE_NEWUSER)?;
    // Without this, an unprivileged process may not write a gid map (Linux 3.19).
    write("writing /proc/self/setgroups", c"/proc/self/setgroups", b"deny")?;
    write_map("writing /proc/self/uid_map", c"/proc/self/uid_map", uid)?;
    write_map("writing /proc/self/gid_map", c"/proc/self/gid_map", gid)?;
    match geteuid().is_root() {
        true => Ok(()),
        false => Err(ProbeStop::Error { call: "geteuid", errno: libc::EPERM }),
    }
}

fn write_map(call: &'static str, path: &CStr, outside: u32) -> Result<(), ProbeStop> {
    let mut line = Cursor::new([0; 32]);
    writeln!(line, "0 {outside} 1").map_err(|_| ProbeStop::last(call))?;
    write(call, path, &line.get_ref()[..line.position() as usize])
}

/// The call that keeps mounts from spreading.
pub(crate) const MAKE_PRIVATE: &str = "mount(MS_PRIVATE)";

/// Enters a mount namespace whose mounts do not spread: inside a user namespace, or as root
/// where user namespaces are refused. Says whether inside one.
pub(crate) fn enter_private_mounts() -> Result<bool, ProbeStop> {
    let inside = become_root_of_a_user_namespace();
    let mounts = unshare("unshare(CLONE_NEWNS)", libc::CLONE_NEWNS);
    // What stopped the first is the reason for the second, too.
    if let (Err(stop), Err(_)) = (inside, mounts) {
        return Err(stop);
    }
    mounts?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change(c"/", private).map_err(refused(MAKE_PRIVATE))?;
    Ok(inside.is_ok())
}
