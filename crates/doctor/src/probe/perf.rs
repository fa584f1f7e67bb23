//! perf: profiles of a start.

use std::os::fd::{FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_SW_TASK_CLOCK, PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE,
    perf_event_attr,
};

use crate::answer::{MachineProbe, ProbeSubject, RefusedBy, Refuser};
use crate::child::{ProbeFailure, ProbeStop, ask};
use crate::host::{CAP_PERFMON, CAP_SYS_ADMIN, Host, Nonsense, sysctl};
use crate::sys::{checked, refused};

/// The software clock counts this process's time in user mode.
pub(crate) fn software(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "perf_software",
        title: "perf, software clock",
        used_for: "profiles: where the time goes",
    };
    answer(about, host, ask(|| count(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK)))
}

/// The processor counts this process's instructions in user mode.
pub(crate) fn hardware(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "perf_hardware",
        title: "perf, hardware counter",
        used_for: "profiles by cycles and cache misses",
    };
    answer(about, host, ask(|| count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS)))
}

/// Counts an event over a short loop, and returns how often it happened.
fn count(kind: u32, config: u32) -> Result<u64, ProbeStop> {
    let mut event = perf_event_attr { type_: kind, config: config.into(), ..Default::default() };
    event.size = size_of_val(&event) as u32;
    event.set_exclude_kernel(1);
    event.set_exclude_hv(1);
    let counter = open(Some(&mut event), 0)?;
    for step in 0..100_000 {
        std::hint::black_box(step);
    }
    let mut count = [0; 8];
    rustix::io::read(counter, &mut count).map_err(refused("read of the counter"))?;
    Ok(u64::from_ne_bytes(count))
}

/// Opens a counter of this process, on any CPU.
fn open(event: Option<&mut perf_event_attr>, flags: u64) -> Result<OwnedFd, ProbeStop> {
    let event = event.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: `event` is null or as large as it says; a descriptor that comes back is nobody's yet.
    unsafe {
        let fd = perf_event_open_sys::perf_event_open(event, 0, -1, -1, flags);
        checked("perf_event_open", fd.into())?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn answer(about: ProbeSubject, host: &Host, reply: Result<u64, ProbeFailure>) -> MachineProbe {
    let failure = match reply {
        Ok(0) => {
            return about.absent("the counter opens, but stays at 0", SOFTWARE_CLOCK_INSTEAD);
        }
        Ok(_) => return about.works("counted a loop of this process, in user mode"),
        Err(failure) => failure,
    };
    if let Some(refuser) = host.usual_refuser(&failure, Some(UNKNOWN_FLAGS)) {
        return about.refused(&failure, refuser);
    }
    let privileged = host.has(CAP_PERFMON) || host.has(CAP_SYS_ADMIN);
    match (failure.errno(), sysctl("kernel/perf_event_paranoid")) {
        (Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP), _) => about.absent(
            "this machine shows no such counter (virtual machines often do not)",
            SOFTWARE_CLOCK_INSTEAD,
        ),
        (Some(libc::EACCES | libc::EPERM), Some(level @ 3..)) if !privileged => {
            about.refused(&failure, Refuser::sysctl("kernel.perf_event_paranoid", level, 2))
        }
        (Some(libc::EACCES | libc::EPERM), _) => about.refused(
            &failure,
            Refuser::new(
                RefusedBy::SecurityModule,
                "a security module or the container's rules",
                "Give becalm the capability CAP_PERFMON, or profile outside the container.",
            ),
        ),
        _ => about.refused(&failure, Refuser::unknown(SOFTWARE_CLOCK_INSTEAD)),
    }
}

const SOFTWARE_CLOCK_INSTEAD: &str = "Nothing to do: a recording needs no counters.";

/// The kernel refuses unknown flags before it looks at anything else.
const UNKNOWN_FLAGS: Nonsense =
    Nonsense { call: || open(None, u64::MAX).map(|_| 0), usual: libc::EINVAL };
