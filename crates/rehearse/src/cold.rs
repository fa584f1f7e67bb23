//! A warm node made cold again, from inside a rehearsal.

use std::io;
use std::path::PathBuf;

use proc::mount_entries;
use rustix::fs::getxattr;

use crate::session::SUBTYPE;

/// Asking for this extended attribute of a rehearsed directory makes its server drop what the mount
/// has cached. (To set one, the mount would have to be writable.)
const COLD: &std::ffi::CStr = c"user.becalm.cold";

/// Why caches are still there.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", .path.display())]
pub struct ColdError {
    /// The mount, or the file that lists them.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

/// Has every rehearsal that the calling process sees forget what its mount has cached: names,
/// attributes, data. Says how many mounts there are.
///
/// # Errors
/// [`ColdError`].
pub fn forget_caches() -> Result<usize, ColdError> {
    let list = PathBuf::from("/proc/self/mountinfo");
    let text = std::fs::read(&list).map_err(|error| ColdError { path: list, error })?;
    let mounts = mounts(&text);
    for path in &mounts {
        getxattr(path, COLD, &mut [0u8; 8])
            .map_err(|error| ColdError { path: path.clone(), error: error.into() })?;
    }
    Ok(mounts.len())
}

/// The mount points of rehearsals in a list of mounts.
fn mounts(list: &[u8]) -> Vec<PathBuf> {
    let kind = format!("fuse.{SUBTYPE}");
    let rehearsals = mount_entries(list).filter(|entry| entry.kind == kind.as_str());
    rehearsals.map(|entry| entry.point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rehearsals_are_found_among_mounts_whatever_their_paths() {
        let list = b"22 1 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
            90 22 0:50 / /opt/with\\040space\\012 ro,relatime - fuse.becalm becalm:nfs rw\n\
            91 22 0:51 / /home rw shared:1 master:2 - fuse.sshfs host: rw\n\
            92 22 0:52 / /a\\134b rw shared:1 master:2 - fuse.becalm becalm:nfs rw\n\nbad line\n";
        assert_eq!(mounts(list), [PathBuf::from("/opt/with space\n"), "/a\\b".into()]);
    }
}
