//! What the recording's header says of the machine.

use std::ffi::{CStr, OsString};
use std::time::{SystemTime, UNIX_EPOCH};

use proc::ProcessStatus;
use recording::Header;

use crate::mounts;

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
        uid: rustix::process::geteuid().as_raw(),
        all_syscalls,
        starts_only: false,
        page_faults: false,
        backend: backend.to_owned(),
        mounts: mounts::own(),
        rank: job::LaunchedRank::this_process().map(|launched| launched.rank),
    };
    header.set_command(argv);
    header
}

fn uname() -> [String; 3] {
    let names = rustix::system::uname();
    let text = |name: &CStr| name.to_string_lossy().into_owned();
    [names.nodename(), names.release(), names.machine()].map(text)
}

/// Who traces this process, and how many seccomp filters it has: what an outer tracer or
/// container leaves in /proc/self/status.
pub(crate) struct TracingLimits {
    pub tracer: i32,
    pub has_filter: bool,
}

pub(crate) fn surroundings() -> TracingLimits {
    let status = ProcessStatus::own();
    let number = |name| status.as_ref().and_then(|status| status.number(name)).unwrap_or(0);
    TracingLimits { tracer: number("TracerPid") as i32, has_filter: number("Seccomp") != 0 }
}
