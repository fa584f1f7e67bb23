//! Rights that a program has of its own, and a process that is held back does not get.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{getegid, geteuid};

/// Whether executing a file gives other rights than the caller's: set-user-id, set-group-id,
/// capabilities. Who is traced by an ordinary user does not get them (fs/exec.c, `bprm_fill_uid`;
/// security/commoncap.c), nor who is in a user namespace that does not know the file's owner.
pub fn gives_rights(program: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(program) else { return false };
    let other_user = metadata.mode() & libc::S_ISUID != 0 && metadata.uid() != geteuid().as_raw();
    let executable_group = libc::S_ISGID | libc::S_IXGRP;
    let other_group = metadata.mode() & executable_group == executable_group
        && metadata.gid() != getegid().as_raw();
    other_user || other_group || has_capabilities(program)
}

fn has_capabilities(program: &Path) -> bool {
    // Into nothing: its size is told.
    let size = rustix::fs::getxattr(program, c"security.capability", &mut [0u8; 0][..]);
    size.is_ok_and(|size| size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_file_gives_no_rights_and_what_is_not_there_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!gives_rights(file.path()));
        assert!(!gives_rights(Path::new("/nonexistent/program")));
    }
}
