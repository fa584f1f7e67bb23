//! Page faults of one thread, as the kernel's software event tells them (perf_event_open(2)): at
//! which address, when. Allowed to ordinary users up to kernel.perf_event_paranoid 2, as only what
//! happens in user mode is asked for.
//!
//! One ring a thread: a ring that threads share must be one for each processor, and is then
//! inherited by every child of a fork, which all of them pay for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_PAGE_FAULTS, PERF_FLAG_FD_CLOEXEC, PERF_RECORD_LOST, PERF_RECORD_SAMPLE,
    PERF_SAMPLE_ADDR, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, perf_event_attr, perf_event_mmap_page,
};

use crate::mapping::SharedMapping;

/// Where the kernel writes to, and how far it is read: the two ends of the ring, never wrapped.
const HEAD: usize = std::mem::offset_of!(perf_event_mmap_page, data_head);
const TAIL: usize = std::mem::offset_of!(perf_event_mmap_page, data_tail);

/// A page fault in user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// Which address was touched.
    pub address: u64,
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub at: u64,
}

/// The page faults of one thread that nobody has taken yet.
pub struct FaultRing {
    event: OwnedFd,
    ring: SharedMapping,
    bytes: u64,
    lost: u64,
    /// A fault that was read and is to be taken later.
    next: Option<PageFault>,
}

impl FaultRing {
    /// Watches another thread (by the kernel's id) from now on, with room for `bytes`, a power of two of
    /// at least a page; 24 bytes are a fault. What is locked for that counts against
    /// kernel.perf_event_mlock_kb for each processor, and then against RLIMIT_MEMLOCK: where it is
    /// refused, a smaller ring is tried, down to a page.
    ///
    /// It is ready to be read (poll(2)) each time that a quarter of it is written. A signal for that
    /// would cost every fault an interrupt of its own: it is not asked for.
    ///
    /// # Errors
    /// Those of perf_event_open(2) and of mmap(2), the kernel's refusals among them.
    pub fn open(tid: i32, bytes: usize) -> io::Result<FaultRing> {
        let page = rustix::param::page_size();
        let mut bytes = bytes;
        loop {
            // The event knows how full its ring has to be to be ready, and is made anew with it.
            let event = open_event(tid, bytes)?;
            match SharedMapping::new(event.as_fd(), 0, page + bytes, true) {
                Ok(ring) => {
                    return Ok(FaultRing { event, ring, bytes: bytes as u64, lost: 0, next: None });
                }
                Err(error) if bytes <= page => return Err(error),
                Err(_) => bytes /= 2,
            }
        }
    }

    /// Hands over the faults that happened before a moment (nanoseconds of CLOCK_MONOTONIC), in
    /// their order.
    pub fn take_before(&mut self, moment: u64, mut each: impl FnMut(PageFault)) {
        while let Some(fault) = self.next.take().or_else(|| self.read()) {
            if fault.at >= moment {
                self.next = Some(fault);
                return;
            }
            each(fault);
        }
    }

    /// How many faults found no room since this was asked last.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// The next fault of the ring.
    fn read(&mut self) -> Option<PageFault> {
        let mut tail = self.ring.long(TAIL).load(Ordering::Relaxed);
        let mut found = None;
        while found.is_none() && tail < self.ring.long(HEAD).load(Ordering::Acquire) {
            // struct perf_event_header: type (4 bytes), misc (2), size (2).
            let header = self.word(tail);
            let (kind, size) = (header as u32, (header >> 48).max(8));
            match kind {
                PERF_RECORD_SAMPLE => {
                    found =
                        Some(PageFault { at: self.word(tail + 8), address: self.word(tail + 16) });
                }
                PERF_RECORD_LOST => self.lost += self.word(tail + 16),
                _ => {}
            }
            tail += size;
            self.ring.long(TAIL).store(tail, Ordering::Release);
        }
        found
    }

    /// Eight bytes of the ring. Records are multiples of that, so none of them is cut by its end.
    fn word(&self, position: u64) -> u64 {
        let data = rustix::param::page_size();
        let offset = data + (position & (self.bytes - 1)) as usize;
        self.ring.long(offset).load(Ordering::Relaxed)
    }
}

impl AsFd for FaultRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl std::fmt::Debug for FaultRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultRing").field("event", &self.event).field("bytes", &self.bytes).finish()
    }
}

/// The event of a thread's page faults, for a ring of so many bytes.
fn open_event(tid: i32, bytes: usize) -> io::Result<OwnedFd> {
    let mut event = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_PAGE_FAULTS.into(),
        sample_type: u64::from(PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR),
        clockid: libc::CLOCK_MONOTONIC,
        size: size_of::<perf_event_attr>() as u32,
        ..perf_event_attr::default()
    };
    event.__bindgen_anon_1.sample_period = 1;
    event.__bindgen_anon_2.wakeup_watermark = (bytes / 4) as u32;
    event.set_watermark(1);
    event.set_use_clockid(1);
    event.set_exclude_kernel(1);
    event.set_exclude_hv(1);
    let flags = PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: `event` is as large as it says; a descriptor that comes back is nobody's yet.
    unsafe {
        let fd = perf_event_open_sys::perf_event_open(&mut event, tid, -1, -1, flags);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Has waits end with EINTR where SIGIO comes to a thread, and nothing else happen.
pub fn hear_of_faults() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the action is whole, its handler does nothing, and without SA_RESTART waits end.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGIO, &action, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_that_another_thread_touches_first_is_told_with_its_address() {
        use std::sync::mpsc::channel;
        let page = rustix::param::page_size();
        let ((here, there), (go, gone)) = (channel(), channel());
        let toucher = std::thread::spawn(move || {
            here.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let () = gone.recv().unwrap();
            // Not the allocator's, which may have touched it before, as a part of a huge page.
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: new memory, as long as it says, that nothing else knows.
            unsafe {
                let memory = libc::mmap(std::ptr::null_mut(), 400 * page, access, kind, -1, 0);
                assert_ne!(memory, libc::MAP_FAILED);
                libc::memset(memory, 1, 400 * page);
                memory as u64
            }
        });
        let ring = FaultRing::open(there.recv().unwrap(), 64 << 10);
        go.send(()).unwrap();
        let start = toucher.join().unwrap();
        let mut ring = match ring {
            Ok(ring) => ring,
            Err(error) => return eprintln!("page faults cannot be watched here: {error}"),
        };
        let mut addresses = Vec::new();
        ring.take_before(u64::MAX, |fault| addresses.push(fault.address));
        let inside = |address: &&u64| (start..start + 400 * page as u64).contains(*address);
        let found = addresses.iter().filter(inside).count();
        // A huge page is one fault.
        assert!((1..=401).contains(&found), "{found} of {}", addresses.len());
        assert_eq!(ring.take_lost(), 0);
    }
}
