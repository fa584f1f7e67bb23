//! Who may read a file that is written anew: who might read the one before, and nobody else.

use std::fs::{File, Metadata, Permissions, metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::fs::getxattr;
use rustix::io::Errno;

/// Gives a file that is about to take another's name the other's owner, group and permissions, as
/// a shell's `>` leaves them. Where the group cannot be given, it gets no rights; of a file with an
/// access control list, which is not copied, only the owner keeps some. Does nothing if there is
/// no regular file of that name.
///
/// # Errors
/// Those of changing the new file's permissions.
pub fn keep_access(new: &File, old: &Path) -> io::Result<()> {
    let Ok(there) = metadata(old) else { return Ok(()) };
    if !there.is_file() {
        return Ok(());
    }
    let _ = fchown(new, Some(there.uid()), Some(there.gid()));
    new.set_permissions(Permissions::from_mode(mode(&there, &new.metadata()?, has_list(old))))
}

fn mode(there: &Metadata, now: &Metadata, has_list: bool) -> u32 {
    let mut mode = there.mode() & 0o777;
    if there.gid() != now.gid() {
        mode &= !0o070;
    }
    // Whom a list names is then among the others.
    if has_list { mode & 0o700 } else { mode }
}

const POSIX: &str = "system.posix_acl_access";

/// Whether a file has an access control list of any kind, or nobody says.
pub fn has_list(path: &Path) -> bool {
    [POSIX, "system.nfs4_acl", "system.richacl"].iter().any(|name| has(path, name))
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
/// Its form: linux/posix_acl_xattr.h, a version and then (tag, rights, id) in 2, 2 and 4 bytes.
///
/// # Errors
/// Those of getxattr(2): `NOTSUP` where there are no such lists (over NFSv4 they are of another
/// kind). `INVAL` if a list is not understood.
pub fn posix_acl(path: &Path) -> Result<Option<Vec<AclEntry>>, Errno> {
    let mut value = [0; 4096];
    let length = match getxattr(path, POSIX, &mut value) {
        Err(Errno::NODATA) => return Ok(None),
        length => length?,
    };
    let (version, entries) = value[..length].split_first_chunk().ok_or(Errno::INVAL)?;
    if u32::from_le_bytes(*version) != 2 || entries.len() % 8 != 0 {
        return Err(Errno::INVAL);
    }
    let mut entries: Vec<AclEntry> = entries.chunks_exact(8).map(entry).collect();
    let mask = entries.iter().find(|entry| entry.tag == MASK).map_or(7, |entry| entry.rights);
    entries.retain(|entry| entry.tag != MASK);
    for entry in &mut entries {
        if MASKED.contains(&entry.tag) {
            entry.rights &= mask;
        }
    }
    Ok(Some(entries))
}

/// `ACL_MASK`: the most that those of [`MASKED`] may.
const MASK: u16 = 0x10;
/// `ACL_USER`, `ACL_GROUP_OBJ`, `ACL_GROUP`.
const MASKED: [u16; 3] = [0x02, 0x04, 0x08];

fn entry(bytes: &[u8]) -> AclEntry {
    AclEntry {
        tag: u16::from_le_bytes([bytes[0], bytes[1]]),
        rights: bytes[2],
        id: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
    }
}

fn has(path: &Path, name: &str) -> bool {
    // Into an empty buffer rustix reads nothing, and never the size.
    let mut value = [0; 1];
    let absent = |error| matches!(error, Errno::NODATA | Errno::NOTSUP);
    !getxattr(path, name, &mut value).is_err_and(absent)
}

#[cfg(test)]
mod tests {
    use std::fs::write;

    use super::*;

    #[test]
    fn a_file_written_anew_is_open_to_whom_it_was_open() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        write(&old, "").unwrap();
        for mode in [0o600, 0o640, 0o444, 0o700] {
            std::fs::set_permissions(&old, Permissions::from_mode(mode)).unwrap();
            keep_access(&File::create(&new).unwrap(), &old).unwrap();
            assert_eq!(metadata(&new).unwrap().mode() & 0o777, mode);
            std::fs::remove_file(&new).unwrap();
        }
        keep_access(&File::create(&new).unwrap(), &directory.path().join("none")).unwrap();
    }

    #[test]
    fn a_file_with_an_access_control_list_comes_to_be_its_owners_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        write(&old, "").unwrap();
        let mut setfacl = std::process::Command::new("setfacl");
        assert!(setfacl.args(["-m", "u:65534:---"]).arg(&old).status().unwrap().success());
        keep_access(&File::create(&new).unwrap(), &old).unwrap();
        assert_eq!(metadata(&new).unwrap().mode() & 0o077, 0);
    }
}
