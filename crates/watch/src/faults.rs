//! Page faults of processes that map much of a file: which parts of which mapped files are touched
//! first, and in what order.
//!
//! A ring costs what a stop costs many times over, and most processes that start are short and map
//! nothing but a few libraries. So a process is watched from its first mapping of [`LARGE`] bytes
//! of a file on (or of a program file that is as large); all its threads are then, until it
//! executes a smaller program. What was touched before that is small, and a few requests.
//!
//! Only faults in user mode are told to ordinary users: what the kernel itself touches for a
//! program (`write` from a mapping, MAP_POPULATE, `madvise`) is not seen.

use recording::{Blind, Nanos, PathId, Touch};
use tap::FaultRing;

use crate::decode::CallEntry;
use crate::fault_alarm::FaultAlarm;
use crate::log::RecordingLog;
use crate::task::Task;

/// How much of a file a process maps before its page faults are watched, in bytes: twice the C
/// library, which every program maps.
pub(crate) const LARGE: u64 = 4 << 20;

/// Room for 10,900 faults. The tracer is told when a quarter is full; it then takes 2,700 faults of
/// 250 ns at least until the next quarter is.
const RING: usize = 256 << 10;

/// What is mapped at an address: of a file the number, and the offset in it of address 0, modulo
/// 2⁶⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappedFile {
    pub path: PathId,
    pub zero: u64,
}

/// Whether a call is about to map so much of a file.
pub(crate) fn maps_much(entry: &CallEntry) -> bool {
    const ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;
    matches!(entry.call.known_name(), Some("mmap" | "mmap2"))
        && entry.args[3] & ANONYMOUS == 0
        && entry.args[1] >= LARGE
}

impl Task {
    /// Watches the thread's page faults from now on; where that is refused, the recording says so.
    pub fn watch_faults(&mut self, log: &mut RecordingLog, alarm: &mut FaultAlarm) {
        if self.faults.is_none() {
            self.open_ring(log, alarm);
        }
        let mut space = self.space.borrow_mut();
        if space.files.is_none() {
            let mut files = crate::spans::Spans::default();
            for (start, length, mapped) in mapped_files(self.tid, log) {
                files.put(start, length, Some(mapped));
            }
            space.files = Some(files);
        }
    }

    fn open_ring(&mut self, log: &mut RecordingLog, alarm: &mut FaultAlarm) {
        let ring = FaultRing::open(self.tid, RING);
        match ring.and_then(|ring| alarm.watch(&ring).map(|()| ring)) {
            Ok(ring) => self.faults = Some(ring),
            // It has ended.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => {
                let error = format!("perf_event_open of page faults: {error}");
                log.blind(Blind::FaultsUnseen { process: self.process, error });
            }
        }
    }

    /// A file, or memory, is mapped at these addresses. What was touched before the call began lay
    /// in what was there before.
    pub fn mapped(
        &mut self,
        log: &mut RecordingLog,
        at: Nanos,
        start: u64,
        length: u64,
        of: Option<MappedFile>,
    ) {
        self.take_faults(log, at);
        if let Some(files) = &mut self.space.borrow_mut().files {
            files.put(start, length, of);
        }
    }

    /// Records what the thread touched before a moment of the recording.
    pub fn take_faults(&mut self, log: &mut RecordingLog, before: Nanos) {
        let Some(ring) = &mut self.faults else { return };
        let space = self.space.borrow();
        let (process, thread) = (self.process, self.tid.unsigned_abs());
        ring.take_before(log.clock_at(before), |fault| {
            let file = space.files.as_ref().and_then(|files| files.at(fault.address).flatten());
            if let Some(MappedFile { path, zero }) = file {
                let page = fault.address.wrapping_add(zero);
                // Aligned in memory; a file that is mapped there from its beginning has no more.
                let before = fault.address % Touch::AROUND;
                log.touched((process, thread), path, page.saturating_sub(before), fault.at);
            }
        });
        log.faults_lost(ring.take_lost());
    }
}

/// The files that a process has mapped (proc_pid_maps(5)): where, how many bytes, and which part.
fn mapped_files(tid: i32, log: &mut RecordingLog) -> Vec<(u64, u64, MappedFile)> {
    let maps = std::fs::read(format!("/proc/{tid}/maps")).unwrap_or_default();
    let mut found = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        // start-end perms offset device inode, blanks, path: 'line' is cut at single blanks.
        let mut words = line.splitn(6, |byte| *byte == b' ');
        let mut hexadecimal = |word: &[u8]| {
            std::str::from_utf8(word).ok().and_then(|word| u64::from_str_radix(word, 16).ok())
        };
        let range = words.next().unwrap_or_default();
        let mut ends = range.split(|byte| *byte == b'-').map(&mut hexadecimal);
        let (Some(Some(start)), Some(Some(end))) = (ends.next(), ends.next()) else { continue };
        let Some(offset) = words.nth(1).and_then(hexadecimal) else { continue };
        let path = words.nth(2).unwrap_or_default().trim_ascii_start();
        if path.starts_with(b"/") && !path.ends_with(b" (deleted)") {
            let file = MappedFile { path: log.path(path), zero: offset.wrapping_sub(start) };
            found.push((start, end.saturating_sub(start), file));
        }
    }
    found
}
