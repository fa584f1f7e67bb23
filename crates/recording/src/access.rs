//! Who may read a file that is written anew: who might read the one before, and nobody else.

use std::fs::{File, Permissions, metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::fs::{XattrFlags, fremovexattr, fsetxattr, getxattr};
use rustix::io::Errno;

/// Gives a file that is about to take another's name the other's owner, group, permissions and
/// access control list, as a shell's `>` leaves them. Where the group cannot be given, it gets no
/// rights; where a list cannot be copied, only the owner keeps some. Does nothing if there is no
/// regular file of that name.
///
/// # Errors
/// Those of changing the new file's permissions.
pub fn keep_access(new: &File, old: &Path) -> io::Result<()> {
    let Ok(there) = metadata(old) else { return Ok(()) };
    if !there.is_file() {
        return Ok(());
    }
    let _ = fchown(new, Some(there.uid()), Some(there.gid()));
    let has_group = new.metadata()?.gid() == there.gid();
    // Whom a list names, or keeps out, is among the group and the others until it is copied.
    set_mode(new, there.mode() & 0o700)?;
    if !has_group && has_list(old) {
        return Ok(());
    }
    match copy_lists(new, old, &LISTS) {
        Ok(true) => Ok(()),
        Ok(false) => set_mode(new, there.mode() & if has_group { 0o777 } else { 0o707 }),
        // Of a list that is there all the same, this takes away what it grants.
        Err(_) => set_mode(new, there.mode() & 0o700),
    }
}

/// Gives a new, empty directory all that says who may do what in another one, whose name it is to
/// take: owner, group, permissions and access control lists.
///
/// # Errors
/// What cannot be given: somebody else's owner or group, a list.
pub fn keep_directory_access(new: &File, old: &Path) -> io::Result<()> {
    let there = metadata(old)?;
    let now = new.metadata()?;
    if (now.uid(), now.gid()) != (there.uid(), there.gid()) {
        fchown(new, Some(there.uid()), Some(there.gid()))?;
    }
    set_mode(new, there.mode() & 0o7700)?;
    if !copy_lists(new, old, &[&LISTS[..], &[POSIX_DEFAULT]].concat())? {
        set_mode(new, there.mode() & 0o7777)?;
    }
    // A set-group-ID bit is refused without a word.
    match new.metadata()?.mode() == there.mode() {
        true => Ok(()),
        false => Err(Errno::PERM.into()),
    }
}

fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))
}

const POSIX: &str = "system.posix_acl_access";
/// What a directory gives to what is made in it.
const POSIX_DEFAULT: &str = "system.posix_acl_default";
/// The lists that say who may do what with a file, by the names of their xattrs.
const LISTS: [&str; 3] = [POSIX, "system.nfs4_acl", "system.richacl"];
/// No xattr is longer (xattr(7)).
const LONGEST: usize = 64 << 10;

/// Whether a file has an access control list of any kind, or nobody says.
pub fn has_list(path: &Path) -> bool {
    LISTS.iter().any(|name| has(path, name))
}

/// Gives a file another's lists of these names, and takes away what its directory gave it; whether
/// one that decides who may do what was there.
fn copy_lists(new: &File, old: &Path, names: &[&str]) -> Result<bool, Errno> {
    let mut has_one = false;
    for name in names {
        let mut list = vec![0; LONGEST];
        match getxattr(old, *name, &mut list) {
            Ok(length) => {
                fsetxattr(new, *name, &list[..length], XattrFlags::empty())?;
                has_one |= *name != POSIX_DEFAULT;
            }
            Err(Errno::NODATA | Errno::NOTSUP) => match fremovexattr(new, *name) {
                Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(has_one)
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

/// `ACL_USER_OBJ` of linux/posix_acl.h: a file's owner can give himself any right.
const OWNER: u16 = 0x01;

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

    fn set_list(words: &[&str], path: &Path) {
        let mut setfacl = std::process::Command::new("setfacl");
        assert!(setfacl.args(words).arg(path).status().unwrap().success());
    }

    #[test]
    fn a_file_written_anew_has_the_access_control_list_of_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        write(&old, "").unwrap();
        std::fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
        set_list(&["-m", "u:65534:r"], &old);
        keep_access(&File::create(&new).unwrap(), &old).unwrap();
        let list = posix_acl(&new).unwrap().unwrap();
        assert!(list.contains(&AclEntry { tag: 2, id: 65534, rights: 4 }), "{list:?}");
        assert_eq!(list, posix_acl(&old).unwrap().unwrap());
        assert_eq!(metadata(&new).unwrap().mode(), metadata(&old).unwrap().mode());
    }

    #[test]
    fn whom_the_directory_lets_in_is_not_let_into_a_file_that_did_not() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        write(&old, "").unwrap();
        std::fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
        set_list(&["-d", "-m", "u:65534:rwx"], directory.path());
        let file = File::create(&new).unwrap();
        assert!(posix_acl(&new).unwrap().is_some());
        keep_access(&file, &old).unwrap();
        assert_eq!(posix_acl(&new).unwrap(), None);
        assert_eq!(metadata(&new).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_directory_in_anothers_place_has_its_mode_and_both_lists() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        for mode in [0o700, 0o2751, 0o1777] {
            std::fs::create_dir(&old).unwrap();
            std::fs::set_permissions(&old, Permissions::from_mode(mode)).unwrap();
            if mode == 0o2751 {
                set_list(&["-m", "u:65534:rx", "-m", "d:u:65534:r"], &old);
            }
            std::fs::create_dir(&new).unwrap();
            keep_directory_access(&File::open(&new).unwrap(), &old).unwrap();
            assert_eq!(metadata(&new).unwrap().mode(), metadata(&old).unwrap().mode());
            assert_eq!(posix_acl(&new).unwrap(), posix_acl(&old).unwrap());
            assert_eq!(has(&new, POSIX_DEFAULT), mode == 0o2751);
            std::fs::remove_dir(&old).unwrap();
            std::fs::remove_dir(&new).unwrap();
        }
    }
}
