//! The system calls that probes make in their children: no allocation, errors as [`Stop`].

use std::ffi::CStr;
use std::io::{Cursor, Write};

use crate::child::Stop;

/// The value that a call returned, or what stopped it.
pub(crate) fn checked(call: &'static str, returned: i64) -> Result<u64, Stop> {
    u64::try_from(returned).map_err(|_| Stop::last(call))
}

/// Opens `path`. The descriptor lives as long as the child.
pub(crate) fn open(call: &'static str, path: &CStr, flags: i32) -> Result<i32, Stop> {
    // SAFETY: `path` is a string that ends in NUL.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    checked(call, fd.into()).map(|_| fd)
}

/// Writes `text` to a file of `/proc`, in one piece.
fn write(call: &'static str, path: &CStr, text: &[u8]) -> Result<(), Stop> {
    let fd = open(call, path, libc::O_WRONLY)?;
    // SAFETY: `text` is valid for its length; `fd` is open.
    let written = unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
    checked(call, written as i64).map(|_| ())
}

/// `unshare(2)`.
pub(crate) fn unshare(call: &'static str, flags: i32) -> Result<(), Stop> {
    // SAFETY: changes this process's namespaces only.
    checked(call, unsafe { libc::unshare(flags) }.into()).map(|_| ())
}

/// `mount(2)`.
pub(crate) fn mount(
    call: &'static str,
    source: &CStr,
    target: &CStr,
    fs: &CStr,
    flags: libc::c_ulong,
    options: &CStr,
) -> Result<(), Stop> {
    // SAFETY: all four are strings that end in NUL.
    let done = unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), fs.as_ptr(), flags, options.as_ptr().cast())
    };
    checked(call, done.into()).map(|_| ())
}

/// Enters a user namespace in which this process is root (user_namespaces(7)).
pub(crate) fn become_root_of_a_user_namespace() -> Result<(), Stop> {
    // SAFETY: these calls always succeed and touch no memory.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    unshare("unshare(CLONE_NEWUSER)", libc::CLONE_NEWUSER)?;
    // Without this, an unprivileged process may not write a gid map (Linux 3.19).
    write("writing /proc/self/setgroups", c"/proc/self/setgroups", b"deny")?;
    write_map("writing /proc/self/uid_map", c"/proc/self/uid_map", uid)?;
    write_map("writing /proc/self/gid_map", c"/proc/self/gid_map", gid)?;
    // SAFETY: as above.
    match unsafe { libc::geteuid() } {
        0 => Ok(()),
        _ => Err(Stop::Error { call: "geteuid", errno: libc::EPERM }),
    }
}

fn write_map(call: &'static str, path: &CStr, outside: u32) -> Result<(), Stop> {
    let mut line = Cursor::new([0; 32]);
    writeln!(line, "0 {outside} 1").map_err(|_| Stop::last(call))?;
    write(call, path, &line.get_ref()[..line.position() as usize])
}

/// The call that keeps mounts from spreading.
pub(crate) const MAKE_PRIVATE: &str = "mount(MS_PRIVATE)";

/// Enters a mount namespace whose mounts do not spread: inside a user namespace, or as root
/// where user namespaces are refused. Says whether inside one.
pub(crate) fn enter_private_mounts() -> Result<bool, Stop> {
    let inside = become_root_of_a_user_namespace();
    let mounts = unshare("unshare(CLONE_NEWNS)", libc::CLONE_NEWNS);
    // What stopped the first is the reason for the second, too.
    if let (Err(stop), Err(_)) = (inside, mounts) {
        return Err(stop);
    }
    mounts?;
    let private = libc::MS_REC | libc::MS_PRIVATE;
    mount(MAKE_PRIVATE, c"none", c"/", c"none", private, c"")?;
    Ok(inside.is_ok())
}
