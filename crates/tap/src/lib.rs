#![doc = include_str!("../README.md")]
//!
//! Three small eBPF programs on the kernel's raw tracepoints `sys_enter`, `sys_exit` and
//! `sched_process_exit` write into a ring in shared memory. They are assembled here, for the
//! running kernel, and loaded through bpf(2): no compiler, no BTF, a few hundred microseconds.
//!
//! It needs Linux 5.8 and CAP_BPF with CAP_PERFMON (or CAP_SYS_ADMIN); without them
//! [`Tap::open`] fails at once, and nothing has happened.
//!
//! | file | what it holds |
//! |---|---|
//! | `call` | what is watched, and what is reported of it |
//! | `program` | the three programs and their maps |
//! | `assembler` | how a program is written |
//! | `ring` | how its events are read |
//! | `namespace` | whose process ids |
//! | `self_test` | the proof, at each opening, that events are right on this kernel |
//! | `bpf`, `mapping` | bpf(2) and mmap(2) |
//! | `probe` | its needs one by one, for `becalm doctor` |
//! | `faults` | page faults of one thread, by perf_event_open(2): without privilege |
//! | `arch` | what differs by processor |

mod arch;
mod assembler;
mod bpf;
mod call;
mod faults;
mod mapping;
mod namespace;
mod probe;
mod program;
mod ring;
mod self_test;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::{Timespec, epoll};
use rustix::process::{Resource, Rlimit, prlimit};

use assembler::Instruction;
use bpf::{MAPPABLE, MapShape, MapType};
use mapping::SharedMapping;
use namespace::Namespace;
use program::{CallElement, Maps, NUMBERS, Scratch, TapControl};
use ring::Ring;

pub use bpf::ProgramKind;
pub use call::{CallString, TapEvent, WatchedCall};
pub use faults::{FaultRing, PageFault, hear_of_faults};
pub use probe::{attach_to_every_call, load_smallest};

/// A size for the ring that fits most: 4 MiB, 32,000 events.
pub const RING_BYTES: usize = 4 << 20;

/// How many processes can be followed, and how many threads be reported of, at one time.
const ENTRIES: u32 = 8192;

/// Why there is no tap.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// No privilege, or the kernel is locked down.
    #[error("eBPF is not permitted here: {0}")]
    Forbidden(#[source] io::Error),
    /// The kernel knows no ring buffer (before Linux 5.8), or no eBPF.
    #[error("this kernel's eBPF is too old or too small: {what}: {error}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
    /// The kernel's verifier refused a program.
    #[error("the kernel refused the program at {tracepoint}: {error}: {reason}")]
    Refused {
        /// Where it was to run.
        tracepoint: &'static str,
        /// What bpf(2) said.
        error: io::Error,
        /// The last words of the verifier.
        reason: String,
    },
    /// No call of the native table, or one that cannot be watched.
    #[error("there is no system call {0}")]
    NoSuchNumber(u16),
    /// Events are not right on this kernel.
    #[error("the tap does not work on this kernel: {0}")]
    SelfTest(&'static str),
    /// The process is in a pid namespace below ours, and ours is not the initial one.
    #[error("process {0} is in another pid namespace")]
    OtherNamespace(i32),
    /// As many processes are followed as can be.
    #[error("process {0} is one more than can be followed")]
    TooMany(i32),
    /// Anything else.
    #[error("{what}: {error}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// An open tap. Dropping it ends the watching at once.
pub struct Tap {
    // Dropped first: nothing runs any more when the maps go.
    _links: [OwnedFd; 3],
    ring: Ring,
    shared: SharedMapping,
    /// An epoll of the ring, which the programs make ready.
    ready: OwnedFd,
    follower: Follower,
}

/// Says which processes a [`Tap`] watches; for another thread than the one that drains it.
#[derive(Clone)]
pub struct Follower {
    maps: Arc<Maps>,
    namespace: Namespace,
}

impl Tap {
    /// Watches the calls with these numbers of the machine's own table, in the processes told by
    /// [`Tap::follow`]. What has returned waits in a ring of `ring_bytes` bytes, rounded up to
    /// a power of two; on x86-64 an event takes 128.
    ///
    /// # Errors
    /// Whatever is missing. Nothing has changed then, except that a child of ours lived for a
    /// moment.
    pub fn open(numbers: &[u16], ring_bytes: usize) -> Result<Tap, TapError> {
        let calls: Vec<_> = numbers.iter().copied().map(WatchedCall::plain).collect();
        Tap::open_for(&calls, ring_bytes)
    }

    /// The same of calls with strings. A record of one takes 8 bytes more and what they take.
    ///
    /// # Errors
    /// As [`Tap::open`].
    pub fn open_for(calls: &[WatchedCall], ring_bytes: usize) -> Result<Tap, TapError> {
        if let Some(call) = calls.iter().find(|call| usize::from(call.number) >= NUMBERS) {
            return Err(TapError::NoSuchNumber(call.number));
        }
        let namespace = Namespace::ours()
            .map_err(|error| TapError::System { what: "cannot read /proc/self/ns/pid", error })?;
        let ring_bytes = ring_bytes.clamp(rustix::param::page_size(), 1 << 30).next_power_of_two();
        let tap = Tap::attach_somewhere(namespace, ring_bytes)?;
        tap.watch(calls);
        Ok(tap)
    }

    /// Also reports the calls of this process, all its threads, from their next on. The
    /// children that it forks are followed only when they are told in turn: while they are
    /// stopped, if none of their calls is to be missed.
    ///
    /// # Errors
    /// [`TapError::TooMany`] from the 8193rd on, [`TapError::OtherNamespace`].
    pub fn follow(&self, tgid: i32) -> Result<(), TapError> {
        self.follower.follow(tgid)
    }

    /// Reports this process's calls no more. To be called before its id can be used again: when
    /// a tracer has been told of its end.
    pub fn forget(&self, tgid: i32) {
        self.follower.forget(tgid);
    }

    /// Lets no event be lost, with the help of the processes' tracer: a thread whose call fills
    /// the ring to three quarters is sent SIGSTOP by the kernel itself (`si_code` SI_KERNEL,
    /// which no other SIGSTOP has) and takes it on its way out of that call. The tracer must
    /// drain then, and continue the thread without the signal; no other drain is needed.
    ///
    /// A quarter of the ring is left for the threads whose calls return meanwhile.
    pub fn brake(&self) {
        self.shared().brake.store(1, Ordering::Relaxed);
    }

    /// The part that follows and forgets, for another thread.
    pub fn follower(&self) -> Follower {
        self.follower.clone()
    }

    /// Hands over every event that has completed, in the order in which the calls returned.
    /// What a thread did before it stopped, or before it did anything that is known of by other
    /// means, is among it. No system call, except after the reader was woken.
    pub fn drain(&mut self, mut each: impl FnMut(TapEvent)) {
        self.drain_with_strings(|event, _| each(event));
    }

    /// The same, with the calls' strings.
    pub fn drain_with_strings(&mut self, mut each: impl FnMut(TapEvent, [CallString<'_>; 2])) {
        self.ring.drain(|record, after| each(TapEvent::of(record), call::strings(record, after)));
        if self.shared().woken.load(Ordering::Acquire) != 0 {
            self.rearm();
        }
    }

    /// Events that did not fit: into the ring, or because more threads than 8192 lived at once.
    pub fn lost(&self) -> u64 {
        self.shared().lost.load(Ordering::Relaxed)
    }

    /// A descriptor that polls readable when an eighth of the ring or more waits, for a thread
    /// that drains in time. [`Tap::drain`] makes it unreadable again.
    pub fn ready(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// Where the kernel says of which table a call is depends on its version: the self-test tells.
    fn attach_somewhere(namespace: Namespace, ring_bytes: usize) -> Result<Tap, TapError> {
        let mut places = arch::COMPAT_AT.iter();
        loop {
            let Some(compat_at) = places.next() else {
                return Err(TapError::SelfTest(self_test::COMPAT_REPORTED));
            };
            match Tap::attach(namespace, ring_bytes, *compat_at) {
                Err(TapError::SelfTest(self_test::COMPAT_REPORTED)) => {}
                tap => return tap,
            }
        }
    }

    /// Makes the maps, loads and attaches the programs, and tests them.
    fn attach(namespace: Namespace, ring_bytes: usize, compat_at: i32) -> Result<Tap, TapError> {
        let maps = with_memory(|| Maps::new(ring_bytes))?;
        let system = |what| move |error| TapError::System { what, error };
        let shared = SharedMapping::new(maps.shared.as_fd(), 0, rustix::param::page_size(), true)
            .map_err(system("cannot map an eBPF map"))?;
        let ring =
            Ring::new(maps.ring.as_fd(), ring_bytes).map_err(system("cannot map an eBPF ring"))?;
        let ready = edges(maps.ring.as_fd()).map_err(system("cannot poll an eBPF ring"))?;
        // From the end to the beginning: whatever is entered is also left.
        let links = with_memory(|| {
            Ok([
                attached(c"sched_process_exit", &program::end(&maps))?,
                attached(c"sys_exit", &program::exit(&maps))?,
                attached(c"sys_enter", &program::entry(&maps, &namespace, compat_at))?,
            ])
        })?;
        let follower = Follower { maps: Arc::new(maps), namespace };
        let mut tap = Tap { _links: links, ring, shared, ready, follower };
        self_test::run(&mut tap)?;
        Ok(tap)
    }

    /// From now on these calls, and no others, are watched.
    fn watch(&self, calls: &[WatchedCall]) {
        let watched = &self.shared().watched;
        watched.iter().for_each(|each| each.store(0, Ordering::Relaxed));
        for call in calls {
            watched[usize::from(call.number)].store(call.rules(), Ordering::Relaxed);
        }
    }

    /// Lets the programs wake the reader again. The descriptor is made unreadable first: a
    /// waking that comes after it is not undone.
    fn rearm(&self) {
        let mut event = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Nothing waits: then it is unreadable already.
        let _ = epoll::wait(&self.ready, &mut event, Some(&at_once));
        self.shared().woken.store(0, Ordering::Release);
    }

    fn shared(&self) -> &TapControl {
        self.shared.shared()
    }
}

impl Follower {
    /// As [`Tap::follow`].
    ///
    /// # Errors
    /// As there.
    pub fn follow(&self, tgid: i32) -> Result<(), TapError> {
        let system = |what| move |error| TapError::System { what, error };
        if !self.namespace.sees(tgid).map_err(system("cannot read a process's namespace"))? {
            return Err(TapError::OtherNamespace(tgid));
        }
        let added = bpf::update(self.maps.followed.as_fd(), tgid as u32, 1);
        added.map_err(|error| match error.raw_os_error() {
            Some(libc::E2BIG) => TapError::TooMany(tgid),
            _ => system("cannot follow a process")(error),
        })
    }

    /// As [`Tap::forget`].
    pub fn forget(&self, tgid: i32) {
        // The only error is that it was not followed.
        let _ = bpf::delete(self.maps.followed.as_fd(), tgid as u32);
    }
}

impl Maps {
    fn new(ring_bytes: usize) -> Result<Maps, TapError> {
        let map = |what, kind, key_bytes, value_bytes: usize, entries, flags| {
            let value_bytes = value_bytes as u32;
            bpf::create_map(&MapShape { kind, key_bytes, value_bytes, entries, flags })
                .map_err(|error| TapError::of_bpf(what, error))
        };
        // The ring first: it is what old kernels lack.
        Ok(Maps {
            ring: map("a ring", MapType::Ring, 0, 0, ring_bytes as u32, 0)?,
            shared: map("an array", MapType::Array, 4, size_of::<TapControl>(), 1, MAPPABLE)?,
            followed: map("a hash", MapType::Hash, 4, 4, ENTRIES, 0)?,
            calls: map("a hash", MapType::Hash, 8, size_of::<CallElement>(), ENTRIES, 0)?,
            scratch: map("an array", MapType::ArrayOfEach, 4, size_of::<Scratch>(), 1, 0)?,
            ring_bytes,
        })
    }
}

impl TapError {
    fn of_bpf(what: &'static str, error: io::Error) -> TapError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => TapError::Forbidden(error),
            Some(libc::EINVAL | libc::ENOSYS | libc::E2BIG | libc::ENOENT) => {
                TapError::Unsupported { what, error }
            }
            _ => TapError::System { what, error },
        }
    }
}

/// Loads a program and runs it at a tracepoint.
fn attached(tracepoint: &'static CStr, code: &[Instruction]) -> Result<OwnedFd, TapError> {
    let name = tracepoint.to_str().unwrap_or_default();
    let program = bpf::load(ProgramKind::RawTracepoint, code).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::EPERM) => TapError::Forbidden(error),
            _ => TapError::Refused {
                tracepoint: name,
                error,
                reason: bpf::reason(ProgramKind::RawTracepoint, code),
            },
        }
    })?;
    bpf::attach(program.as_fd(), tracepoint).map_err(|error| TapError::of_bpf(name, error))
}

/// Before Linux 5.11 maps and programs count against the limit on locked memory, and a refusal
/// for that reason looks like any other: so it is tried again with the limit raised, which is
/// then put back, because a command would inherit it.
fn with_memory<T>(make: impl Fn() -> Result<T, TapError>) -> Result<T, TapError> {
    let first = make();
    let Err(TapError::Forbidden(_)) = first else { return first };
    let locked = |limit| prlimit(None, Resource::Memlock, limit);
    let Ok(before) = locked(Rlimit { current: None, maximum: None }) else { return first };
    let second = make();
    // Back to what it was, which is always allowed.
    let _ = locked(before);
    second
}

/// An epoll that becomes ready when the programs wake the ring's reader. The ring's own
/// descriptor does not do: it polls readable while anything at all is in it.
fn edges(ring: BorrowedFd) -> io::Result<OwnedFd> {
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&ready, ring, epoll::EventData::new_u64(0), flags)?;
    Ok(ready)
}
