//! Whether a program gains rights when this process starts it (execve(2), capabilities(7)).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, getxattr, statvfs};
use rustix::process::{getegid, geteuid};

/// As `cap_bprm_creds_from_file` (the kernel's security/commoncap.c) sets `secureexec`: another
/// user, another group, or for others than root capabilities of the file. A mount may forbid
/// all of that.
pub(super) fn gained(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return false };
    let mode = metadata.permissions().mode();
    let user = mode & libc::S_ISUID != 0 && metadata.uid() != geteuid().as_raw();
    // Without the group's right to execute, the bit means mandatory locking.
    let group_bits = libc::S_ISGID | libc::S_IXGRP;
    let group = mode & group_bits == group_bits && metadata.gid() != getegid().as_raw();
    let capable = !geteuid().is_root()
        && getxattr(path, c"security.capability", &mut [0u8; 64]).is_ok_and(|size| size > 0);
    (user || group || capable)
        && !statvfs(path).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID))
}
