//! POSIX access control lists, which an image has no place for: what the permissions alone must not
//! allow then.

use std::path::Path;

use access::{mode_without_list, posix_acl};
use rustix::io::Errno;

use crate::SquashWriteError;

/// The name of the xattr.
pub(super) const NAME: &[u8] = access::POSIX.as_bytes();

/// The permissions of a file whose list is not kept, by which nobody may do more than by its list.
///
/// # Errors
/// The list cannot be read, or is not understood.
pub(super) fn without_list(path: &Path, mode: u16, owner: u32) -> Result<u16, SquashWriteError> {
    match posix_acl(path) {
        // None on this filesystem; and what may not even be asked (a link of /proc).
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::ACCESS | Errno::PERM) => Ok(mode),
        list => {
            let list = list.map_err(SquashWriteError::at("read the ACL", path))?;
            Ok(list.map_or(mode, |list| mode_without_list(mode, owner, &list)))
        }
    }
}
