//! The file that a shell names.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use watch::Stopped;

/// The full path of a file by the name that a shell has for it (`BASH_SOURCE`); none if there is no such
/// file: of what came from no file, bash says `environment` or `main`. The script itself, which is outermost,
/// was named from where the shell was started; other files most likely from where it is now.
pub(super) fn script_file(
    process: &Stopped,
    started_in: &[u8],
    name: &[u8],
    outermost: bool,
) -> Option<Vec<u8>> {
    if name.first() == Some(&b'/') {
        return Some(name.to_vec());
    }
    let below = |directory: &[u8]| {
        let name = name.strip_prefix(b"./").unwrap_or(name);
        let path = [directory, b"/", name].concat();
        let is_there = fs::metadata(OsStr::from_bytes(&path)).is_ok_and(|meta| !meta.is_dir());
        is_there.then_some(path)
    };
    let now = || {
        let now = fs::read_link(format!("/proc/{}/cwd", process.tid)).ok()?;
        below(now.as_os_str().as_bytes())
    };
    if outermost { below(started_in) } else { now().or_else(|| below(started_in)) }
}
