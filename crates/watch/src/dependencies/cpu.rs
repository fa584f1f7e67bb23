//! The processor that a followed command shares with who follows it: most of what a stop costs is
//! waking the other side on another processor.

use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Then the scheduler may choose anew: another process may have come to this one.
const RENEW: Duration = Duration::from_millis(20);

/// What is shared. Processes that are started inherit it.
pub(super) struct SharedCpu {
    all: CpuSet,
    bound: Option<Instant>,
}

impl SharedCpu {
    /// Has this process keep to its processor, if there are several.
    pub fn begin() -> SharedCpu {
        let all = sched_getaffinity(None).unwrap_or_default();
        let mut shared = SharedCpu { all, bound: None };
        shared.bind(&[]);
        shared
    }

    fn bind(&mut self, others: &[i32]) {
        let cpu = sched_getcpu();
        if self.all.count() < 2 || cpu >= CpuSet::MAX_CPU {
            return;
        }
        let mut one = CpuSet::new();
        one.set(cpu);
        set(others, &one);
        self.bound = Some(Instant::now());
    }

    /// From time to time, has this process and others wake where there is room.
    pub fn renew(&mut self, others: &[i32]) {
        match self.bound {
            Some(since) if since.elapsed() > RENEW => {
                set(others, &self.all);
                self.bound = None;
            }
            Some(_) => {}
            None => self.bind(others),
        }
    }

    /// Gives this process its processors back.
    pub fn end(self) {
        set(&[], &self.all);
    }
}

/// For this process, too. Fails only for one that is gone, which needs no processor.
fn set(others: &[i32], cpus: &CpuSet) {
    for pid in others.iter().copied().chain([0]) {
        let _ = sched_setaffinity(Pid::from_raw(pid), cpus);
    }
}
