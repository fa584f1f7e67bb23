//! A warm node made cold again, from inside a rehearsal.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

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
        let failed = |error: io::Error| ColdError { path: path.clone(), error };
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| failed(e.into()))?;
        let mut value = [0u8; 8];
        let room = value.as_mut_ptr().cast();
        // SAFETY: both strings end with a zero byte; the kernel fills at most the value.
        let got = unsafe { libc::getxattr(name.as_ptr(), COLD.as_ptr(), room, value.len()) };
        if got < 0 {
            return Err(failed(io::Error::last_os_error()));
        }
    }
    Ok(mounts.len())
}

/// The mount points of rehearsals in a list of mounts (proc_pid_mountinfo(5)).
fn mounts(list: &[u8]) -> Vec<PathBuf> {
    let kind = format!("fuse.{SUBTYPE}").into_bytes();
    let mut mounts = Vec::new();
    for line in list.split(|byte| *byte == b'\n') {
        let mut words = line.split(|byte| *byte == b' ');
        let point = words.nth(4);
        let kind_of_it = words.skip_while(|word| *word != b"-").nth(1);
        if let Some(point) = point.filter(|_| kind_of_it == Some(kind.as_slice())) {
            mounts.push(OsString::from_vec(unescaped(point)).into());
        }
    }
    mounts
}

/// A path as it is: the list has spaces, tabs, newlines and backslashes as `\040`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                path.push(byte);
                rest = &after[3..];
            }
            None => {
                path.push(*first);
                rest = after;
            }
        }
    }
    path
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
