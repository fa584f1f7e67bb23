//! Page faults of processes that map much of a file: which parts of which mapped files are touched
//! first, and in what order.
//!
//! A ring costs what a stop costs many times over, and most processes that start are short and map
//! nothing but a few libraries. So a process is watched from its first mapping of [`LARGE`] bytes
//! of a file on (or of a program file that is as large, or once its libraries are [`MANY`] bytes
//! together); all its threads are then, until it executes a smaller program. What was touched before
//! that is small, and a few requests.
//!
//! Only faults in user mode are told to ordinary users, and only of mappings that were seen is it
//! known what they are of. So it is also looked which pages the process has ([`crate::present`]):
//! around each fault, as it may have mapped more, and all of what no fault can have told of where
//! the page table is about to go. Not seen is what is mapped and gone again in between.

use recording::{Blind, Nanos, PathId, Touch};
use rustc_hash::FxHashMap;
use tap::FaultRing;

use crate::decode::CallEntry;
use crate::fault_alarm::FaultAlarm;
use crate::log::RecordingLog;
use crate::space::AddressSpace;
use crate::task::Task;

/// How much of a file a process maps before its page faults are watched, in bytes: twice the C
/// library, which every program maps.
pub(crate) const LARGE: u64 = 4 << 20;

/// Room for 10,900 faults. The tracer is told when a quarter is full; it then takes 2,700 faults of
/// 250 ns at least until the next quarter is.
const RING: usize = 256 << 10;

/// How much a fault can map at most: what one page table is of (mm/filemap.c, `filemap_map_pages`; 6.18
/// maps all of a folio, where before it was 64 KiB of it, or all of one that fills the table).
const FOLIO: u64 = 2 << 20;

/// A process that maps so many bytes of instructions in smaller parts is watched, too.
const MANY: u64 = 16 << 20;

/// What is mapped at an address: of a file the number, and the offset in it of address 0, modulo
/// 2⁶⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappedFile {
    pub path: PathId,
    pub zero: u64,
}

impl MappedFile {
    /// Where the part of the file that an address is in begins.
    fn part(self, address: u64) -> u64 {
        // Aligned in memory; a file that is mapped there from its beginning has no more.
        address.wrapping_add(self.zero).saturating_sub(address % Touch::AROUND)
    }

    /// Whether who touched an address of a mapping that begins at `start` goes through the file:
    /// then the first page of a folio faults, and so one at such a place of the file. Of those who
    /// touch pages here and there that is one in sixteen.
    fn is_walked(self, address: u64, start: u64) -> bool {
        let page = address - address % rustix::param::page_size() as u64;
        page == start || page.wrapping_add(self.zero).is_multiple_of(Touch::AROUND)
    }
}

/// Whether a call is about to map so much of a file.
pub(crate) fn maps_much(entry: &CallEntry) -> bool {
    const ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;
    matches!(entry.call.known_name(), Some("mmap" | "mmap2"))
        && entry.args[3] & ANONYMOUS == 0
        && entry.args[1] >= LARGE
}

impl Task {
    /// Whether the process is to be watched for all that it has mapped together.
    pub fn maps_many(&self) -> bool {
        let space = self.space.borrow();
        space.files.is_none() && space.code_bytes >= MANY
    }

    /// Watches the thread's page faults from now on; where that is refused, the recording says so.
    pub fn watch_faults(&mut self, log: &mut RecordingLog, alarm: &mut FaultAlarm) {
        if self.faults.is_none() {
            self.open_ring(log, alarm);
        }
        let mut space = self.space.borrow_mut();
        if space.files.is_none() {
            let mut files = crate::spans::Spans::default();
            for (start, length, mapped) in mapped_files(self.tid, log, &space) {
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
                self.space.borrow_mut().faults_refused = true;
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

    /// Records what the thread touched before a moment of the recording, and what came along where
    /// it goes through a file: if the page cache has that in large folios, one fault maps all of one.
    pub fn take_faults(&mut self, log: &mut RecordingLog, before: Nanos) {
        let Some(ring) = &mut self.faults else { return };
        let space = &mut *self.space.borrow_mut();
        let by = (self.process, self.tid.unsigned_abs());
        let mut faults = Vec::new();
        ring.take_before(log.clock_at(before), |fault| {
            let around = space.files.as_ref().and_then(|files| files.around(fault.address));
            if let Some((start, end, Some(file))) = around {
                log.touched(by, file.path, file.part(fault.address), fault.at);
                let table = fault.address - fault.address % FOLIO;
                let within = (start.max(table), end.min(table.saturating_add(FOLIO)));
                faults.push((within, fault, file));
            }
        });
        log.faults_lost(ring.take_lost());
        faults.sort_by_key(|(within, fault, _)| (*within, fault.address));
        for faults in faults.chunk_by(|(one, ..), (other, ..)| one == other) {
            let ((start, end), _, file) = faults[0];
            for page in space.present.parts(self.tid, start, end) {
                let before = faults.partition_point(|(_, fault, _)| fault.address < page);
                let Some((_, fault, _)) = before.checked_sub(1).map(|at| faults[at]) else {
                    continue;
                };
                if file.is_walked(fault.address, start) {
                    log.touched(by, file.path, file.part(page), fault.at);
                }
            }
        }
    }

    /// Records what the process has of its files and no fault has told of: all of it where faults
    /// are not watched, or were not until now, otherwise what is mapped where it was not seen to
    /// be (mremap(2), many mappings that are small), if that is much.
    pub fn take_unseen(&mut self, log: &mut RecordingLog, is_first: bool) {
        let space = &mut *self.space.borrow_mut();
        let Some(files) = &space.files else { return };
        if self.faults.is_none() && !space.faults_refused {
            // It shares all with its parent until it executes another program (vfork(2)).
            return;
        }
        let (all, at) = (is_first || space.faults_refused, log.clock_at(log.now()));
        let mut unseen = mapped_files(self.tid, log, space);
        let knows = |start, file: &MappedFile| {
            files.at(start).flatten().is_some_and(|known| known.zero == file.zero)
        };
        unseen.retain(|(start, _, file)| all || !knows(*start, file));
        let bytes: u64 = unseen.iter().map(|(_, length, _)| length).sum();
        if !all && bytes < LARGE {
            return;
        }
        for (start, length, file) in unseen {
            for page in space.present.parts(self.tid, start, start.saturating_add(length)) {
                let by = (self.process, self.tid.unsigned_abs());
                log.touched(by, file.path, file.part(page), at);
            }
        }
    }
}

/// A file that a process has mapped: where, how many bytes, and which part.
type Mapping = (u64, u64, MappedFile);

/// The files that a process has mapped (proc_pid_maps(5)), by the names that the run has for them:
/// the kernel's own have no symbolic links, such as /lib.
fn mapped_files(tid: i32, log: &mut RecordingLog, space: &AddressSpace) -> Vec<Mapping> {
    let maps = std::fs::read(format!("/proc/{tid}/maps")).unwrap_or_default();
    let mut found: Vec<Mapping> =
        maps.split(|byte| *byte == b'\n').filter_map(|line| mapping(line, log)).collect();
    let names: FxHashMap<PathId, PathId> = found
        .iter()
        .filter_map(|(start, _, file)| Some((file.path, space.code_of(*start)?)))
        .collect();
    for (_, _, file) in &mut found {
        file.path = names.get(&file.path).copied().unwrap_or(file.path);
    }
    found
}

/// A line of it; none of memory that is no file's.
fn mapping(line: &[u8], log: &mut RecordingLog) -> Option<Mapping> {
    // start-end perms offset device inode, blanks, path: 'line' is cut at single blanks.
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let hexadecimal = |word: &[u8]| u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok();
    let mut ends = words.next()?.split(|byte| *byte == b'-').map(hexadecimal);
    let (start, end) = (ends.next()??, ends.next()??);
    let offset = hexadecimal(words.nth(1)?)?;
    let path = words.nth(2)?.trim_ascii_start();
    // What devices and shared memory have mapped comes from no disk or server.
    let is_file = path.starts_with(b"/") && !path.starts_with(b"/dev/");
    (is_file && !path.ends_with(b" (deleted)")).then(|| {
        let file = MappedFile { path: log.path(path), zero: offset.wrapping_sub(start) };
        (start, end.saturating_sub(start), file)
    })
}
