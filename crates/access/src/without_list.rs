//! What a file's permissions are to be where its access control list is not kept (acl(5)).

use crate::AclEntry;
use crate::list::{GROUP, OWNING_GROUP, USER};

/// The permissions of a file whose list is not kept, by which nobody may do more than by its list.
///
/// With a list, the group's permissions are its mask; and who is named in it may be allowed less than
/// the group or all others, to whom he belongs without it.
pub fn mode_without_list(mode: u16, owner: u32, list: &[AclEntry]) -> u16 {
    let (mut group, mut others) = (mode >> 3 & 7, mode & 7);
    for entry in list {
        let rights = u16::from(entry.rights);
        match entry.tag {
            OWNING_GROUP => group &= rights,
            // The owner's own entry comes first.
            USER if entry.id != owner => {
                group &= rights;
                others &= rights;
            }
            GROUP => others &= rights,
            _ => {}
        }
    }
    mode & !0o077 | group << 3 | others
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of an owner who is user 7; (tag, rights, id), the mask applied.
    fn with(mode: u16, entries: &[(u16, u8, u32)]) -> u16 {
        let entry = |&(tag, rights, id): &(u16, u8, u32)| AclEntry { tag, id, rights };
        mode_without_list(mode, 7, &entries.iter().map(entry).collect::<Vec<_>>())
    }

    #[test]
    fn the_group_gets_its_own_rights_and_not_the_mask() {
        let entries = [(1, 6, 0), (USER, 4, 2000), (OWNING_GROUP, 0, 0), (0x20, 0, 0)];
        assert_eq!(with(0o640, &entries), 0o600);
        // What is more than the mask allows was never the group's.
        let entries = [(1, 7, 0), (OWNING_GROUP, 5, 0), (0x20, 5, 0)];
        assert_eq!(with(0o2755, &entries), 0o2755);
    }

    #[test]
    fn who_is_kept_out_by_name_keeps_those_out_among_whom_he_is_not_told_from() {
        let user = [(1, 6, 0), (USER, 0, 1000), (OWNING_GROUP, 4, 0), (0x20, 4, 0)];
        assert_eq!(with(0o644, &user), 0o600);
        let group = [(1, 6, 0), (OWNING_GROUP, 4, 0), (GROUP, 0, 1000), (0x20, 4, 0)];
        assert_eq!(with(0o644, &group), 0o640);
        let owner = [(1, 6, 0), (USER, 0, 7), (OWNING_GROUP, 4, 0), (0x20, 4, 0)];
        assert_eq!(with(0o644, &owner), 0o644, "the owner's own entry comes first");
    }

    #[test]
    fn who_is_allowed_more_by_name_takes_nothing_from_others() {
        let entries = [(1, 7, 0), (USER, 7, 9), (OWNING_GROUP, 5, 0), (0x20, 5, 0)];
        assert_eq!(with(0o775, &entries), 0o755);
    }
}
