//! A loop of integers in registers, as the built-in kernel has one: it has no layout, so what slows
//! it is the machine.

use std::arch::asm;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::aslr::analyze::median;

/// As the kernel's: tens of microseconds.
const ITERATIONS: u32 = 20_000;
/// A rank is not to wait notably for it; and few of these are interrupted.
const LOOPS: usize = 25;

/// What the loop usually takes on a processor, in seconds. The calling thread runs there
/// meanwhile, if it may.
pub(super) fn on(processor: Option<u32>) -> f64 {
    let before = sched_getaffinity(None).ok();
    let there = processor.map(|cpu| cpu as usize).filter(|cpu| *cpu < CpuSet::MAX_CPU);
    if let Some(cpu) = there {
        let mut only = CpuSet::new();
        only.set(cpu);
        let _ = sched_setaffinity(None, &only);
    }
    let mut took: Vec<_> = (0..LOOPS).map(|_| once()).collect();
    if let Some(before) = before {
        let _ = sched_setaffinity(None, &before);
    }
    median(&mut took).unwrap_or_default()
}

fn once() -> f64 {
    let start = Instant::now();
    let mut x = 88_172_645_463_325_252_u64;
    for _ in 0..ITERATIONS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        // SAFETY: no instruction; it only keeps the number in a register, and the loop a loop.
        unsafe { asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags)) };
    }
    start.elapsed().as_secs_f64()
}
