//! Data: which parts of which files a run used, by calls and through mappings, and in what order.
//!
//! What a mapping gives is seen by its page faults, each of which stands for the aligned 64 KiB
//! around it ([`Touch::AROUND`]): bytes touched are an upper bound, by less than 64 KiB for each
//! place that was touched alone, where the page cache has no larger folios. What a call reads is
//! exact.

mod positions;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FileRange, Kind, Nanos, Outcome, PathId, ProcessId, Recording, Touch};
use positions::Positions;

/// How a part of a file was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DataUse {
    /// By a call: `read`, `pread64`…
    Read,
    /// Through a mapping, by a page fault.
    Touched,
}

/// One use of one part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAccess {
    /// When: of a read its start.
    pub at: Nanos,
    /// Who.
    pub process: ProcessId,
    /// Of which file.
    pub path: PathId,
    /// Which part: what a read returned, what a fault may have made usable.
    pub range: FileRange,
    /// How.
    pub how: DataUse,
    /// The read's number in [`Recording::events`].
    pub event: Option<usize>,
    /// Where the file ends, as far as its mappings say: of a touch; otherwise, and where none does,
    /// the largest number.
    pub file_end: u64,
}

/// Whether a file's parts were used one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataOrder {
    /// Most uses begin where the one before them ended, or a little after.
    Sequential,
    /// More than a quarter begin elsewhere.
    Scattered,
}

/// What a run used of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileData {
    /// Which file.
    pub path: PathId,
    /// Bytes that calls returned, as often as they did.
    pub read: u64,
    /// How many calls that were.
    pub reads: u64,
    /// Bytes of it that were mapped, each counted once. None where no mapping of it says so.
    pub mapped: u64,
    /// Bytes that were touched through mappings, each counted once.
    pub touched: u64,
    /// In what order it was used.
    pub order: DataOrder,
    /// When it was used first.
    pub first: Nanos,
}

/// A stretch of a file that was used in one go, none of it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRun {
    /// Which file.
    pub path: PathId,
    /// Which part of it.
    pub range: FileRange,
    /// How.
    pub how: DataUse,
    /// When it began.
    pub at: Nanos,
}

/// What was touched of mapped files, in the order of time.
pub fn touches(recording: &Recording) -> Vec<DataAccess> {
    if recording.touches.is_empty() {
        return Vec::new();
    }
    let ends = mapped_ends(recording);
    let touched = recording.touches.iter().map(|touch| {
        let offset = touch.offset;
        let file_end = ends.get(&touch.path).copied().unwrap_or(u64::MAX);
        DataAccess {
            at: touch.at,
            process: touch.process,
            path: touch.path,
            range: FileRange { offset, bytes: Touch::AROUND.min(file_end.saturating_sub(offset)) },
            how: DataUse::Touched,
            event: None,
            file_end,
        }
    });
    let mut all: Vec<DataAccess> = touched.collect();
    all.sort_by_key(|access| access.at);
    all
}

/// All uses of files' data, in the order of time.
pub fn accesses(recording: &Recording) -> Vec<DataAccess> {
    let mut all = touches(recording);
    let mut positions = Positions::default();
    for (number, event) in recording.events.iter().enumerate() {
        let offset = positions.take_in(event, recording.ranges.get(&number));
        if let (Kind::Read, Some(path), Outcome::Returned(bytes @ 1..)) =
            (event.kind(), event.path, event.outcome)
        {
            all.push(DataAccess {
                at: event.start,
                process: event.process,
                path,
                range: FileRange { offset, bytes: (bytes as u64).min(MOST_READ) },
                how: DataUse::Read,
                event: Some(number),
                file_end: u64::MAX,
            });
        }
    }
    all.sort_by_key(|access| access.at);
    all
}

/// No call reads more (read(2)).
const MOST_READ: u64 = 0x7fff_f000;

/// What was used of each file, those that most was read and touched of first.
pub fn files(recording: &Recording) -> Vec<FileData> {
    let mut known: HashMap<PathId, FileSum> = HashMap::default();
    for access in accesses(recording) {
        known.entry(access.path).or_insert_with(|| FileSum::new(access.at)).add(&access);
    }
    let mapped = mapped(recording);
    let file = |(path, sum): (PathId, FileSum)| FileData {
        path,
        read: sum.read,
        reads: sum.reads,
        mapped: mapped.get(&path).map_or(0, Ranges::bytes),
        touched: sum.touched.bytes(),
        order: sum.order(),
        first: sum.first,
    };
    let mut files: Vec<FileData> = known.into_iter().map(file).collect();
    let size = |file: &FileData| file.read.saturating_add(file.touched);
    files.sort_by_key(|file| (std::cmp::Reverse(size(file)), file.path));
    files
}

/// The order of first use: every byte that was used is in one run. A run goes on where the next
/// use of any file goes on where it ends, in the same way.
pub fn runs(recording: &Recording) -> Vec<DataRun> {
    let mut used: HashMap<PathId, Ranges> = HashMap::default();
    let mut runs: Vec<DataRun> = Vec::new();
    for access in accesses(recording) {
        for range in used.entry(access.path).or_default().take_in(access.range) {
            let DataAccess { path, how, at, .. } = access;
            match runs.last_mut() {
                Some(last)
                    if (last.path, last.how, last.range.end()) == (path, how, range.offset) =>
                {
                    last.range.bytes += range.bytes;
                }
                _ => runs.push(DataRun { path, range, how, at }),
            }
        }
    }
    runs
}

/// What was mapped of each file: of recordings whose mappings say which part it is.
pub fn mapped(recording: &Recording) -> HashMap<PathId, Ranges> {
    let mut mapped: HashMap<PathId, Ranges> = HashMap::default();
    for (number, range) in &recording.ranges {
        let event = &recording.events[*number];
        if let (Kind::Map, Some(path), false) = (event.kind(), event.path, event.outcome.failed()) {
            mapped.entry(path).or_default().take_in(*range);
        }
    }
    mapped
}

fn mapped_ends(recording: &Recording) -> HashMap<PathId, u64> {
    let end = |ranges: Ranges| ranges.parts.last_key_value().map_or(0, |(_, end)| *end);
    mapped(recording).into_iter().map(|(path, ranges)| (path, end(ranges))).collect()
}

/// Parts of one file, none of which touch: where each begins, and ends.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    parts: BTreeMap<u64, u64>,
}

impl Ranges {
    /// How many bytes they are.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|(begin, end)| end - begin).sum()
    }

    /// All of them, in order.
    pub fn all(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.parts.iter().map(|(begin, end)| *begin..*end)
    }

    /// Whether a byte is in one of them.
    pub fn has(&self, offset: u64) -> bool {
        let before = self.parts.range(..=offset).next_back();
        before.is_some_and(|(_, end)| offset < *end)
    }

    /// Takes in a part, and says what of it is new.
    pub fn take_in(&mut self, range: FileRange) -> Vec<FileRange> {
        let (mut begin, mut end) = (range.offset, range.end());
        let mut fresh = Vec::new();
        let mut at = begin;
        let before = self.parts.range(..=begin).next_back().map(|(begin, _)| *begin);
        let first = before.unwrap_or(begin);
        let met: Vec<(u64, u64)> =
            self.parts.range(first..=end).map(|(begin, end)| (*begin, *end)).collect();
        for (known, known_end) in met {
            if known_end < range.offset {
                continue;
            }
            if known > at {
                fresh.push(FileRange { offset: at, bytes: known - at });
            }
            at = at.max(known_end);
            (begin, end) = (begin.min(known), end.max(known_end));
            self.parts.remove(&known);
        }
        if at < range.end() {
            fresh.push(FileRange { offset: at, bytes: range.end() - at });
        }
        if begin < end {
            self.parts.insert(begin, end);
        }
        fresh
    }
}

/// What is added up of one file.
struct FileSum {
    first: Nanos,
    read: u64,
    reads: u64,
    touched: Ranges,
    uses: u64,
    jumps: u64,
    /// Where each process's last use of it ended.
    ends: HashMap<(ProcessId, DataUse), u64>,
}

impl FileSum {
    fn new(first: Nanos) -> FileSum {
        let (touched, ends) = (Ranges::default(), HashMap::default());
        FileSum { first, read: 0, reads: 0, touched, uses: 0, jumps: 0, ends }
    }

    fn add(&mut self, access: &DataAccess) {
        match access.how {
            DataUse::Read => {
                self.read = self.read.saturating_add(access.range.bytes);
                self.reads += 1;
            }
            DataUse::Touched => drop(self.touched.take_in(access.range)),
        }
        let end = self.ends.insert((access.process, access.how), access.range.end());
        self.uses += 1;
        self.jumps += u64::from(end.is_some_and(|end| !follows(end, access.range.offset)));
    }

    fn order(&self) -> DataOrder {
        match 4 * self.jumps > self.uses {
            true => DataOrder::Scattered,
            false => DataOrder::Sequential,
        }
    }
}

/// Whether a use that begins there goes on with one that ended here: what lies between them, the
/// kernel's smallest readahead brings along.
fn follows(end: u64, begin: u64) -> bool {
    begin <= end.saturating_add(Touch::AROUND) && begin.saturating_add(Touch::AROUND) >= end
}
