//! What the processor and the kernel count of a command, by perf_event_open(2).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::str::FromStr;

use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_BRANCH_MISSES, PERF_COUNT_HW_CACHE_DTLB, PERF_COUNT_HW_CACHE_ITLB,
    PERF_COUNT_HW_CACHE_L1D, PERF_COUNT_HW_CACHE_L1I, PERF_COUNT_HW_CACHE_MISSES,
    PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_RESULT_MISS, PERF_COUNT_HW_CPU_CYCLES,
    PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_MIGRATIONS,
    PERF_COUNT_SW_PAGE_FAULTS_MAJ, PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_FLAG_FD_CLOEXEC,
    PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_TYPE_HARDWARE,
    PERF_TYPE_HW_CACHE, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE, perf_event_attr,
};

/// Something that is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterEvent {
    /// Its name.
    pub name: String,
    kind: u32,
    config: u64,
}

/// `NAME=rUUEE`, as `perf stat -e rUUEE` has it: a processor's own event by its number.
impl FromStr for CounterEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<CounterEvent, String> {
        let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, code) = parts.ok_or("write it as NAME=r0107")?;
        let digits = code.strip_prefix('r').ok_or("write its number as r0107, as perf does")?;
        let config = u64::from_str_radix(digits, 16).map_err(|error| format!("{code}: {error}"))?;
        Ok(CounterEvent { name: name.to_owned(), kind: PERF_TYPE_RAW, config })
    }
}

/// Those that are counted on every processor.
pub fn usual() -> Vec<CounterEvent> {
    let cache = |which: u32| {
        which | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16
    };
    [
        ("page faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN),
        ("page faults that read", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ),
        ("context switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES),
        ("changes of processor", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS),
        ("cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES),
        ("instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS),
        ("branch misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES),
        ("cache misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES),
        ("L1 data misses", PERF_TYPE_HW_CACHE, cache(PERF_COUNT_HW_CACHE_L1D)),
        ("L1 instruction misses", PERF_TYPE_HW_CACHE, cache(PERF_COUNT_HW_CACHE_L1I)),
        ("DTLB misses", PERF_TYPE_HW_CACHE, cache(PERF_COUNT_HW_CACHE_DTLB)),
        ("ITLB misses", PERF_TYPE_HW_CACHE, cache(PERF_COUNT_HW_CACHE_ITLB)),
    ]
    .map(|(name, kind, config)| CounterEvent { name: name.to_owned(), kind, config: config.into() })
    .into()
}

impl CounterEvent {
    /// Whether the processor counts it, and not the kernel.
    pub fn is_hardware(&self) -> bool {
        self.kind != PERF_TYPE_SOFTWARE
    }

    /// Whether it is counted of the program's own instructions alone, which is what an ordinary user
    /// may. A change of context or processor is always the kernel's.
    fn is_outside_the_kernel(&self) -> bool {
        let faults = [PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_COUNT_SW_PAGE_FAULTS_MAJ];
        self.is_hardware() || faults.map(u64::from).contains(&self.config)
    }
}

/// A counter of a process and of all that it starts from then on.
pub struct EventCounter(File);

impl EventCounter {
    /// Begins to count what a process does: all but changes of context and processor outside the
    /// kernel only.
    ///
    /// # Errors
    /// ENOENT or EOPNOTSUPP where the machine has no such counter, EACCES or EPERM where it is not
    /// allowed.
    pub fn of(pid: i32, event: &CounterEvent) -> io::Result<EventCounter> {
        let mut attributes =
            perf_event_attr { type_: event.kind, config: event.config, ..Default::default() };
        attributes.size = size_of_val(&attributes) as u32;
        attributes.read_format =
            u64::from(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING);
        attributes.set_inherit(1);
        attributes.set_exclude_kernel(event.is_outside_the_kernel().into());
        attributes.set_exclude_hv(event.is_outside_the_kernel().into());
        let flags = PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: the kernel reads as many bytes of `attributes` as it says in `size`.
        let descriptor =
            unsafe { perf_event_open_sys::perf_event_open(&mut attributes, pid, -1, -1, flags) };
        match descriptor {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: a descriptor that was just opened, and is nobody else's.
            descriptor => Ok(EventCounter(unsafe { File::from_raw_fd(descriptor) })),
        }
    }

    /// What it has counted. Where the processor had to share its counters out among events, what was
    /// counted for a part of the time is scaled to all of it; none where it never counted.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn value(&mut self) -> io::Result<Option<f64>> {
        let mut numbers = [0; 24];
        self.0.read_exact(&mut numbers)?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let [value, enabled, running] = [0, 1, 2].map(|at| u64::from_ne_bytes(numbers[at]) as f64);
        Ok((running > 0.0).then(|| value * enabled / running))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processors_own_event_is_named_by_its_number() {
        let event: CounterEvent = "ld_blocks_partial.address_alias=r0107".parse().unwrap();
        assert_eq!((event.name.as_str(), event.config), ("ld_blocks_partial.address_alias", 0x107));
        assert!(event.is_hardware());
        for text in ["", "x", "=r1", "x=1", "x=r", "x=rzz"] {
            text.parse::<CounterEvent>().unwrap_err();
        }
    }
}
