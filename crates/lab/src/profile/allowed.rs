//! What the kernel lets this process sample: asked by opening the events, not read from settings,
//! which distributions and security modules overrule (perf_event_open(2)).

use std::fs;

use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_HARDWARE,
    PERF_TYPE_SOFTWARE, perf_event_attr,
};

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

/// An event that samples: its kind and its number.
type SampledEvent = (u32, u32);

const HARDWARE_CYCLES: SampledEvent = (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
const CPU_CLOCK: SampledEvent = (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);

impl Allowed {
    /// Asks the kernel.
    pub fn here() -> Allowed {
        let (own, everyone) = ((0, -1), (-1, 0));
        let kernel = opens(CPU_CLOCK, own, true);
        let cycles = opens(HARDWARE_CYCLES, own, kernel);
        Allowed {
            own: kernel || opens(CPU_CLOCK, own, false),
            kernel,
            all: kernel && opens(CPU_CLOCK, everyone, true),
            cycles,
            kernel_symbols: tells_addresses(),
            paranoid: setting("kernel/perf_event_paranoid"),
        }
    }
}

/// Whether such an event can be opened for a process and CPU; with the kernel's part, or without.
fn opens((kind, number): SampledEvent, (pid, cpu): (i32, i32), with_kernel: bool) -> bool {
    let mut event = perf_event_attr { type_: kind, config: number.into(), ..Default::default() };
    event.size = size_of_val(&event) as u32;
    event.__bindgen_anon_1.sample_period = 1_000_000_000;
    event.set_exclude_kernel((!with_kernel).into());
    event.set_exclude_hv((!with_kernel).into());
    let flags = PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the kernel reads as many bytes of `event` as it says in `size`; a descriptor that
    // comes back is this function's own.
    unsafe {
        let fd = perf_event_open_sys::perf_event_open(&mut event, pid, cpu, -1, flags);
        fd >= 0 && libc::close(fd) == 0
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
