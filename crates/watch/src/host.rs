//! What the recording's header says of the machine.

use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use recording::{Header, Mount};

/// The header of a recording that starts now.
pub(crate) fn header(argv: &[OsString], all_syscalls: bool, backend: &str) -> Header {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let [host, kernel, machine] = uname();
    let cwd = std::env::current_dir().unwrap_or_default();
    let mut header = Header {
        becalm: env!("CARGO_PKG_VERSION").to_owned(),
        host,
        kernel,
        machine,
        started_unix: now.as_secs(),
        started_nanos: now.subsec_nanos(),
        argv: Vec::new(),
        exact_argv: Vec::new(),
        cwd: cwd.to_string_lossy().into_owned(),
        // SAFETY: a system call without arguments.
        uid: unsafe { libc::geteuid() },
        all_syscalls,
        starts_only: false,
        backend: backend.to_owned(),
        mounts: mounts(),
        rank: job::Launched::this_process().map(|launched| launched.rank),
    };
    header.set_command(argv);
    header
}

fn uname() -> [String; 3] {
    // SAFETY: utsname is arrays of characters, which the kernel fills and ends with zeros.
    let names = unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        libc::uname(&mut names);
        names
    };
    [&names.nodename, &names.release, &names.machine].map(|name| {
        // SAFETY: the kernel ends every name with a zero within its array.
        unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
    })
}

/// The mounts of this namespace, from /proc/self/mountinfo (proc_pid_mountinfo(5)): fields up
/// to the mount point, then optional ones up to ` - `, then type and source.
fn mounts() -> Vec<Mount> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let line = std::ffi::OsStr::from_bytes(line).to_string_lossy();
    let (place, what) = line.split_once(" - ")?;
    let mut what = what.split(' ');
    Some(Mount {
        point: unescape(place.split(' ').nth(4)?),
        fs: what.next()?.to_owned(),
        source: unescape(what.next().unwrap_or_default()),
    })
}

/// Spaces, tabs, newlines and backslashes are written as three octal digits.
fn unescape(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => {
                text.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                text.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    text + rest
}

/// Who traces this process, and how many seccomp filters it has: what an outer tracer or
/// container leaves in /proc/self/status.
pub(crate) struct Surroundings {
    pub tracer: i32,
    pub has_filter: bool,
}

pub(crate) fn surroundings() -> Surroundings {
    let own = std::process::id() as i32;
    let number = |name| crate::signals::status_number(own, name).unwrap_or(0);
    Surroundings { tracer: number("TracerPid:") as i32, has_filter: number("Seccomp:") != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_with_a_space_is_read_as_it_is() {
        let line = br"36 35 98:0 / /mnt/my\040disk rw,noatime shared:1 - nfs4 srv:/x\134y rw";
        let mount = mount(line).unwrap();
        assert_eq!(mount.point, "/mnt/my disk");
        assert_eq!((mount.fs.as_str(), mount.source.as_str()), ("nfs4", r"srv:/x\y"));
    }
}
