//! What the kernel lets this process sample: asked by opening the events, not read from settings,
//! which distributions and security modules overrule (perf_event_open(2)).

use std::fs;

/// What may be sampled here, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// This process and what it starts.
    pub own: bool,
    /// The kernel's part of it, too.
    pub kernel: bool,
    /// All processes of the machine (`perf record -a`).
    pub all: bool,
    /// By the processor's cycle counter; else by a timer.
    pub cycles: bool,
    /// Whether the kernel tells the addresses of its functions (kptr_restrict).
    pub kernel_symbols: bool,
    /// kernel.perf_event_paranoid.
    pub paranoid: Option<i32>,
}

/// The first version of the kernel's `struct perf_event_attr` (linux/perf_event.h), which all
/// later ones accept.
#[repr(C)]
#[derive(Default)]
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

const HARDWARE_CYCLES: (u32, u64) = (0, 0);
const CPU_CLOCK: (u32, u64) = (1, 0);
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const CLOSE_ON_EXEC: u64 = 1 << 3;

impl Allowed {
    /// Asks the kernel.
    pub fn here() -> Allowed {
        let user_only = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        let (own, everyone) = ((0, -1), (-1, 0));
        let may = |event, whom, flags| opens(event, whom, flags);
        let kernel = may(CPU_CLOCK, own, 0);
        let cycles = may(HARDWARE_CYCLES, own, if kernel { 0 } else { user_only });
        Allowed {
            own: kernel || may(CPU_CLOCK, own, user_only),
            kernel,
            all: kernel && may(CPU_CLOCK, everyone, 0),
            cycles,
            kernel_symbols: tells_addresses(),
            paranoid: setting("kernel/perf_event_paranoid"),
        }
    }
}

/// Whether an event that samples can be opened for a process and CPU.
fn opens((kind, config): (u32, u64), (pid, cpu): (i32, i32), flags: u64) -> bool {
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        sample_period: 1_000_000_000,
        flags,
        ..Attributes::default()
    };
    // SAFETY: the kernel reads as many bytes of `attributes` as it says in `size`; a descriptor
    // that comes back is this function's own.
    unsafe {
        let number = libc::SYS_perf_event_open;
        let fd = libc::syscall(number, &raw const attributes, pid, cpu, -1, CLOSE_ON_EXEC);
        fd >= 0 && libc::close(fd as i32) == 0
    }
}

/// With kptr_restrict, /proc/kallsyms shows zeros to whoever may not know.
fn tells_addresses() -> bool {
    use std::io::{BufRead, BufReader};
    let Ok(file) = fs::File::open("/proc/kallsyms") else { return false };
    let lines = BufReader::new(file).lines().take(1000).map_while(Result::ok);
    let mut addresses = lines.filter_map(|line| line.split(' ').next().map(str::to_owned));
    // Per-CPU symbols come first, the first of them at 0.
    addresses.any(|address| address.chars().any(|digit| digit != '0'))
}

fn setting(name: &str) -> Option<i32> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse().ok()
}
