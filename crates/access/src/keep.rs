//! Who may read a file that is written anew: who might read the one before, and nobody else.

use std::fs::{File, Permissions, metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::fs::{XattrFlags, fremovexattr, fsetxattr, getxattr};
use rustix::io::Errno;

use crate::has_list;
use crate::list::{LISTS, LONGEST, POSIX_DEFAULT};

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

#[cfg(test)]
mod tests {
    use std::fs::write;

    use super::*;
    use crate::list::has;
    use crate::{AclEntry, posix_acl};

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
