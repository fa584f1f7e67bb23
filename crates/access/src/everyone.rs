//! Whether everyone may do something with a file or directory.

use std::path::Path;

use rustix::io::Errno;

use crate::list::OWNER;
use crate::posix_acl;

/// Whether everyone may do this with a file or directory (4: read it, 1: enter it): by its
/// permissions, and by its list.
pub fn everyone_may(path: &Path, mode: u32, rights: u8) -> bool {
    mode_lets_everyone(mode, rights) && list_lets_everyone(path, rights)
}

/// Whether permissions give these rights to the group and to others: a group that has fewer is kept
/// out.
pub fn mode_lets_everyone(mode: u32, rights: u8) -> bool {
    let all = u32::from(rights) * 0o011;
    mode & all == all
}

/// Whether the access control list, if there is one, keeps nobody out. One that is not understood
/// may.
pub fn list_lets_everyone(path: &Path, rights: u8) -> bool {
    match posix_acl(path) {
        Ok(None) | Err(Errno::NOTSUP) => true,
        Ok(Some(list)) => {
            let mut others = list.iter().filter(|entry| entry.tag != OWNER);
            others.all(|entry| entry.rights & rights == rights)
        }
        Err(_) => false,
    }
}
