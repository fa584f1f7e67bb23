//! Access control lists (acl(5)). The form of POSIX's: linux/posix_acl_xattr.h, a version and then (tag,
//! rights, id) in 2, 2 and 4 bytes.

use std::path::Path;

use rustix::fs::getxattr;
use rustix::io::Errno;

/// The xattr that is a file's POSIX access control list.
pub const POSIX: &str = "system.posix_acl_access";
/// What a directory gives to what is made in it.
pub const POSIX_DEFAULT: &str = "system.posix_acl_default";
/// The lists that say who may do what with a file, by the names of their xattrs.
pub(crate) const LISTS: [&str; 3] = [POSIX, "system.nfs4_acl", "system.richacl"];
/// No xattr is longer (xattr(7)).
pub(crate) const LONGEST: usize = 64 << 10;
const VERSION: u32 = 2;

/// Tags of linux/posix_acl.h. A file's owner can give himself any right.
pub(crate) const OWNER: u16 = 0x01;
pub(crate) const USER: u16 = 0x02;
pub(crate) const OWNING_GROUP: u16 = 0x04;
pub(crate) const GROUP: u16 = 0x08;
/// The most that those of [`MASKED`] may.
const MASK: u16 = 0x10;
const MASKED: [u16; 3] = [USER, OWNING_GROUP, GROUP];

/// Whether a file has an access control list of any kind, or nobody says.
pub fn has_list(path: &Path) -> bool {
    LISTS.iter().any(|name| has(path, name))
}

/// An entry of a POSIX access control list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Whether it is about the owner, a user, a group or others: a tag of linux/posix_acl.h.
    pub tag: u16,
    /// Which user or group; nobody in particular for the other tags.
    pub id: u32,
    /// What those may do: 4 to read, 2 to write, 1 to execute or to enter, the mask applied.
    pub rights: u8,
}

/// The POSIX access control list of a file, if it has one: then its permissions alone do not tell.
///
/// # Errors
/// Those of getxattr(2): `NOTSUP` where there are no such lists (over NFSv4 they are of another
/// kind). `INVAL` if a list is not understood.
pub fn posix_acl(path: &Path) -> Result<Option<Vec<AclEntry>>, Errno> {
    let (mut usual, mut longest) = ([0; 1024], Vec::new());
    let value = match getxattr(path, POSIX, &mut usual) {
        Err(Errno::NODATA) => return Ok(None),
        Err(Errno::RANGE) => {
            longest.resize(LONGEST, 0);
            let length = getxattr(path, POSIX, &mut longest)?;
            &longest[..length]
        }
        length => &usual[..length?],
    };
    entries(value).ok_or(Errno::INVAL).map(Some)
}

/// What such an xattr holds, the mask applied; none if it is not understood.
fn entries(value: &[u8]) -> Option<Vec<AclEntry>> {
    let (version, entries) = value.split_first_chunk()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
        return None;
    }
    let mut entries: Vec<AclEntry> = entries.chunks_exact(8).map(entry).collect();
    let mask = entries.iter().find(|entry| entry.tag == MASK).map_or(7, |entry| entry.rights);
    entries.retain(|entry| entry.tag != MASK);
    for entry in &mut entries {
        if MASKED.contains(&entry.tag) {
            entry.rights &= mask;
        }
    }
    Some(entries)
}

fn entry(bytes: &[u8]) -> AclEntry {
    AclEntry {
        tag: u16::from_le_bytes([bytes[0], bytes[1]]),
        rights: bytes[2],
        id: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
    }
}

pub(crate) fn has(path: &Path, name: &str) -> bool {
    // Into an empty buffer rustix reads nothing, and never the size.
    let mut value = [0; 1];
    let absent = |error| matches!(error, Errno::NODATA | Errno::NOTSUP);
    !getxattr(path, name, &mut value).is_err_and(absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_many_is_read_to_its_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let many: Vec<_> = (1000..1400).map(|user| format!("u:{user}:r")).collect();
        let mut setfacl = std::process::Command::new("setfacl");
        let set = setfacl.args(["-m", &many.join(",")]).arg(file.path()).status().unwrap();
        assert!(set.success());
        let list = posix_acl(file.path()).unwrap().unwrap();
        let users = list.iter().filter(|entry| entry.tag == USER).map(|entry| entry.id);
        assert!(users.eq(1000..1400));
    }

    #[test]
    fn a_list_of_another_kind_is_not_understood() {
        assert_eq!(entries(&[3, 0, 0, 0]), None);
        assert_eq!(entries(&[2, 0, 0, 0, 1]), None);
        assert_eq!(entries(&[]), None);
    }
}
