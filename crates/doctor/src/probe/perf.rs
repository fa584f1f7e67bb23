//! perf: profiles of a start.

use crate::answer::{About, By, Culprit, Probe};
use crate::child::{ChildFailure, Stop, ask};
use crate::host::{CAP_PERFMON, CAP_SYS_ADMIN, Host, Nonsense, sysctl};
use crate::sys::checked;

/// The software clock counts this process's time in user mode.
pub(crate) fn software(host: &Host) -> Probe {
    let about = About {
        name: "perf_software",
        title: "perf, software clock",
        used_for: "profiles: where the time goes",
    };
    answer(about, host, ask(|| count(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK)))
}

/// The processor counts this process's instructions in user mode.
pub(crate) fn hardware(host: &Host) -> Probe {
    let about = About {
        name: "perf_hardware",
        title: "perf, hardware counter",
        used_for: "profiles by cycles and cache misses",
    };
    answer(about, host, ask(|| count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS)))
}

/// The first version of the kernel's `struct perf_event_attr` (linux/perf_event.h), which all
/// later ones accept.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}

const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_HW_INSTRUCTIONS: u64 = 1;
const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

/// Counts an event over a short loop, and returns how often it happened.
fn count(kind: u32, config: u64) -> Result<u64, Stop> {
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    let counter = perf_event_open(&raw const attributes, 0)?;
    for step in 0..100_000 {
        std::hint::black_box(step);
    }
    let mut count = 0_u64;
    // SAFETY: `count` has room for the eight bytes that a counter gives.
    let read = unsafe { libc::read(counter as i32, (&raw mut count).cast(), size_of::<u64>()) };
    checked("read of the counter", read as i64)?;
    Ok(count)
}

/// Opens a counter of this process, on any CPU.
fn perf_event_open(attributes: *const Attributes, flags: u64) -> Result<u64, Stop> {
    // SAFETY: `attributes` is null or points to as many bytes as it says in `size`.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attributes, 0, -1, -1, flags) };
    checked("perf_event_open", fd)
}

fn answer(about: About, host: &Host, reply: Result<u64, ChildFailure>) -> Probe {
    let failure = match reply {
        Ok(0) => {
            return about.absent("the counter opens, but stays at 0", SOFTWARE_CLOCK_INSTEAD);
        }
        Ok(_) => return about.works("counted a loop of this process, in user mode"),
        Err(failure) => failure,
    };
    if let Some(culprit) = host.usual_culprit(&failure, Some(UNKNOWN_FLAGS)) {
        return about.refused(&failure, culprit);
    }
    let privileged = host.has(CAP_PERFMON) || host.has(CAP_SYS_ADMIN);
    match (failure.errno(), sysctl("kernel/perf_event_paranoid")) {
        (Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP), _) => about.absent(
            "this machine shows no such counter (virtual machines often do not)",
            SOFTWARE_CLOCK_INSTEAD,
        ),
        (Some(libc::EACCES | libc::EPERM), Some(level @ 3..)) if !privileged => {
            about.refused(&failure, Culprit::sysctl("kernel.perf_event_paranoid", level, 2))
        }
        (Some(libc::EACCES | libc::EPERM), _) => about.refused(
            &failure,
            Culprit::new(
                By::SecurityModule,
                "a security module or the container's rules",
                "Give becalm the capability CAP_PERFMON, or profile outside the container.",
            ),
        ),
        _ => about.refused(&failure, Culprit::unknown(SOFTWARE_CLOCK_INSTEAD)),
    }
}

const SOFTWARE_CLOCK_INSTEAD: &str = "Nothing to do: a recording needs no counters.";

/// The kernel refuses unknown flags before it looks at anything else.
const UNKNOWN_FLAGS: Nonsense =
    Nonsense { call: || perf_event_open(std::ptr::null(), u64::MAX), usual: libc::EINVAL };
