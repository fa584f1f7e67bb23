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

/// Whether a file has a POSIX access control list, or nobody says. (Over NFSv4 every file has a
/// list of another kind.)
pub fn has_posix_list(path: &Path) -> bool {
    has(path, POSIX)
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
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        write(&old, "").unwrap();
        for mode in [0o600, 0o640, 0o444, 0o700] {
            std::fs::set_permissions(&old, Permissions::from_mode(mode)).unwrap();
            keep_access(&File::create(&new).unwrap(), &old).unwrap();
            assert_eq!(metadata(&new).unwrap().mode() & 0o777, mode);
            std::fs::remove_file(&new).unwrap();
        }
        keep_access(&File::create(&new).unwrap(), &folder.path().join("none")).unwrap();
    }

    #[test]
    fn a_file_with_an_access_control_list_comes_to_be_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        write(&old, "").unwrap();
        let mut setfacl = std::process::Command::new("setfacl");
        assert!(setfacl.args(["-m", "u:65534:---"]).arg(&old).status().unwrap().success());
        keep_access(&File::create(&new).unwrap(), &old).unwrap();
        assert_eq!(metadata(&new).unwrap().mode() & 0o077, 0);
    }
}
