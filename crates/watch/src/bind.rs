//! Keeps the recorder and what it serves on the same CPU, while only one thread can run.
//!
//! Most of what a stop costs is waking the other side on another, sleeping CPU. While exactly
//! one thread of the command can run, nothing is lost by having it run where the recorder does;
//! a child that it starts inherits that CPU, which keeps a loop of short programs together.
//! As soon as two could run for longer than [`PATIENCE`], all get their CPUs back, as they do
//! before anything could see the difference (a call that asks for a thread's CPUs), and fifty
//! times a second, so that the scheduler can choose anew.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recording::Nanos;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// How long two threads that could run share a CPU before they get theirs back.
const PATIENCE: Nanos = Nanos(1_000_000);

/// How often it is looked at whether they compute without a stop.
const TICK: Duration = Duration::from_millis(5);

/// After so many ticks the scheduler gets to choose a CPU anew: another process may have come to
/// this one.
const RENEW: u32 = 4;

/// Binds threads and the recorder to one CPU, and lets them go.
pub(crate) struct CpuBinder {
    shared: Option<Arc<SharedBinding>>,
    own: bool,
    parallel_since: Option<Nanos>,
}

struct SharedBinding {
    /// The CPUs that the command may run on.
    all: CpuSet,
    bound: Mutex<HashSet<i32>>,
    /// Whether the watchdog has let all go since the recorder last looked.
    released: AtomicBool,
    /// Whether more than one thread could run when the recorder last looked.
    parallel: AtomicBool,
    over: AtomicBool,
}

impl SharedBinding {
    fn lock(&self) -> MutexGuard<'_, HashSet<i32>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, bound: &mut HashSet<i32>) {
        for tid in bound.drain() {
            set(tid, &self.all);
        }
    }

    fn watch(&self) {
        let mut ticks = 0;
        while !self.over.load(Relaxed) {
            std::thread::sleep(TICK);
            ticks += 1;
            if self.parallel.load(Relaxed) || ticks % RENEW == 0 {
                let mut bound = self.lock();
                if !bound.is_empty() {
                    self.release(&mut bound);
                    self.released.store(true, Relaxed);
                }
            }
        }
    }
}

impl CpuBinder {
    /// A binder that does nothing where there is only one CPU, or where `wanted` is false.
    pub fn new(wanted: bool) -> CpuBinder {
        let all = allowed();
        let several = all.count() > 1;
        if !wanted || !several {
            return CpuBinder { shared: None, own: false, parallel_since: None };
        }
        let shared = Arc::new(SharedBinding {
            all,
            bound: Mutex::default(),
            released: AtomicBool::new(false),
            parallel: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let watchdog = std::thread::Builder::new().name("release".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.watch()
        });
        let shared = watchdog.is_ok().then_some(shared);
        CpuBinder { shared, own: false, parallel_since: None }
    }

    /// A thread goes on, and no other can run: it runs where the recorder does.
    pub fn alone(&mut self, tid: i32) {
        let Some(shared) = &self.shared else { return };
        if self.parallel_since.take().is_some() {
            shared.parallel.store(false, Relaxed);
        }
        if shared.released.swap(false, Relaxed) {
            // This thread sleeps once with all CPUs to choose from, and the next stop binds to
            // the one that it then wakes on.
            set(0, &shared.all);
            self.own = false;
            return;
        }
        let mut bound = shared.lock();
        if bound.contains(&tid) {
            return;
        }
        if !self.own {
            let cpu = sched_getcpu();
            if cpu >= CpuSet::MAX_CPU {
                return;
            }
            set(0, &only(cpu));
            self.own = true;
        }
        set(tid, &allowed());
        bound.insert(tid);
    }

    /// A thread goes on, and others can run.
    pub fn among_others(&mut self, now: Nanos) {
        let Some(shared) = &self.shared else { return };
        match self.parallel_since {
            None => {
                self.parallel_since = Some(now);
                shared.parallel.store(true, Relaxed);
            }
            Some(since) if self.own && now.0.saturating_sub(since.0) > PATIENCE.0 => {
                self.release();
            }
            Some(_) => {}
        }
    }

    /// A thread has started another, which has inherited its CPUs.
    pub fn started(&mut self, parent: i32, child: i32) {
        let Some(shared) = &self.shared else { return };
        let mut bound = shared.lock();
        if bound.contains(&parent) {
            bound.insert(child);
        } else {
            // The parent may have been let go after the child had inherited its CPU.
            set(child, &shared.all);
        }
    }

    /// A thread is gone, and its number may soon be another's.
    pub fn ended(&mut self, tid: i32) {
        if let Some(shared) = &self.shared {
            shared.lock().remove(&tid);
        }
    }

    /// A thread is about to be traced no longer: it has all its CPUs, also one that was born to a
    /// bound thread of which nobody has told yet.
    pub fn let_go(&mut self, tid: i32) {
        if let Some(shared) = &self.shared {
            shared.lock().remove(&tid);
            set(tid, &shared.all);
        }
    }

    /// Gives all threads and the recorder their CPUs back.
    fn release(&mut self) {
        let Some(shared) = &self.shared else { return };
        shared.release(&mut shared.lock());
        if self.own {
            set(0, &shared.all);
            self.own = false;
        }
    }

    /// Binds nothing any more: the command looks at its CPUs, or sets them.
    pub fn stop(&mut self) {
        self.release();
        if let Some(shared) = self.shared.take() {
            shared.over.store(true, Relaxed);
        }
    }
}

/// The CPUs that the calling thread may run on; none where the kernel does not tell.
fn allowed() -> CpuSet {
    sched_getaffinity(None).unwrap_or_default()
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// Fails only for a thread that is gone, which needs no CPU.
fn set(tid: i32, cpus: &CpuSet) {
    let _ = sched_setaffinity(Pid::from_raw(tid), cpus);
}
