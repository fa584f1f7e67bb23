//! POSIX access control lists, which an image has no place for: what the permissions alone must not
//! allow then (acl(5)).

use std::path::Path;

use rustix::io::Errno;

use crate::SquashWriteError;

/// The name of the xattr, and its form: linux/posix_acl_xattr.h, a version and then (tag, rights, id)
/// in 2, 2 and 4 bytes.
pub(super) const NAME: &[u8] = b"system.posix_acl_access";
const VERSION: u32 = 2;

/// Tags of linux/posix_acl.h.
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;

/// The permissions of a file whose list is not kept, by which nobody may do more than by its list.
///
/// With a list, the group's permissions are its mask; and who is named in it may be allowed less than
/// the group or all others, to whom he belongs without it.
///
/// # Errors
/// The list cannot be read, or is not understood.
pub(super) fn without_list(path: &Path, mode: u16, owner: u32) -> Result<u16, SquashWriteError> {
    let mut list = vec![0; 1 << 16];
    match rustix::fs::lgetxattr(path, NAME, &mut list[..]) {
        // None, or none on this filesystem; and what may not even be asked (a link of /proc).
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS | Errno::ACCESS | Errno::PERM) => {
            return Ok(mode);
        }
        length => list.truncate(length.map_err(SquashWriteError::at("read the ACL", path))?),
    }
    let not_understood = || SquashWriteError::at("read the ACL", path)(Errno::INVAL);
    narrowed(mode, owner, &list).ok_or_else(not_understood)
}

fn narrowed(mode: u16, owner: u32, list: &[u8]) -> Option<u16> {
    let (version, entries) = list.split_first_chunk()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
        return None;
    }
    let word = |entry: &[u8], at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
    let id = |entry: &[u8]| u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
    let entries = || entries.chunks_exact(8).map(|entry| (word(entry, 0), word(entry, 2), entry));
    let mask = entries().find(|(tag, ..)| *tag == MASK).map_or(7, |(_, rights, _)| rights);
    let (mut group, mut others) = (mode >> 3 & 7, mode & 7);
    for (tag, rights, entry) in entries() {
        match tag {
            OWNING_GROUP => group &= rights & mask,
            // The owner's own entry comes first.
            USER if id(entry) != owner => {
                group &= rights & mask;
                others &= rights & mask;
            }
            GROUP => others &= rights & mask,
            _ => {}
        }
    }
    Some(mode & !0o077 | group << 3 | others)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of an owner who is user 7; (tag, rights, id).
    fn with(mode: u16, entries: &[(u16, u16, u32)]) -> u16 {
        let mut list = VERSION.to_le_bytes().to_vec();
        for (tag, rights, id) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(rights.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        narrowed(mode, 7, &list).unwrap()
    }

    #[test]
    fn the_group_gets_its_own_rights_and_not_the_mask() {
        let entries =
            [(1, 6, 0), (USER, 4, 2000), (OWNING_GROUP, 0, 0), (MASK, 4, 0), (0x20, 0, 0)];
        assert_eq!(with(0o640, &entries), 0o600);
        // What is more than the mask allows was never the group's.
        let entries = [(1, 7, 0), (OWNING_GROUP, 7, 0), (MASK, 5, 0), (0x20, 5, 0)];
        assert_eq!(with(0o2755, &entries), 0o2755);
    }

    #[test]
    fn who_is_kept_out_by_name_keeps_those_out_among_whom_he_is_not_told_from() {
        let user = [(1, 6, 0), (USER, 0, 1000), (OWNING_GROUP, 4, 0), (MASK, 4, 0), (0x20, 4, 0)];
        assert_eq!(with(0o644, &user), 0o600);
        let group = [(1, 6, 0), (OWNING_GROUP, 4, 0), (GROUP, 0, 1000), (MASK, 4, 0), (0x20, 4, 0)];
        assert_eq!(with(0o644, &group), 0o640);
        let owner = [(1, 6, 0), (USER, 0, 7), (OWNING_GROUP, 4, 0), (MASK, 4, 0), (0x20, 4, 0)];
        assert_eq!(with(0o644, &owner), 0o644, "the owner's own entry comes first");
    }

    #[test]
    fn who_is_allowed_more_by_name_takes_nothing_from_others() {
        let entries = [(1, 7, 0), (USER, 7, 9), (OWNING_GROUP, 5, 0), (MASK, 7, 0), (0x20, 5, 0)];
        assert_eq!(with(0o775, &entries), 0o755);
    }

    #[test]
    fn a_list_of_another_kind_is_not_understood() {
        assert_eq!(narrowed(0o644, 7, &[3, 0, 0, 0]), None);
        assert_eq!(narrowed(0o644, 7, &[2, 0, 0, 0, 1]), None);
        assert_eq!(narrowed(0o644, 7, &[]), None);
    }
}
