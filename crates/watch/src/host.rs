//! What the recording's header says of the machine.

use std::ffi::{CStr, OsStr, OsString};
use std::time::{SystemTime, UNIX_EPOCH};

use proc::{MountEntry, mount_entries};
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
        rank: job::LaunchedRank::this_process().map(|launched| launched.rank),
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

/// The mounts of this namespace, their names lossily decoded.
fn mounts() -> Vec<Mount> {
    let list = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let text = |name: &OsStr| name.to_string_lossy().into_owned();
    let mount = |entry: MountEntry| Mount {
        point: text(entry.point.as_os_str()),
        fs: text(&entry.kind),
        source: text(&entry.source),
    };
    mount_entries(&list).map(mount).collect()
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
    Surroundings { tracer: number("TracerPid") as i32, has_filter: number("Seccomp") != 0 }
}
